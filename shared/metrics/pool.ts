import { Gauge, type Registry } from 'prom-client';
import type { Pool } from '../db/pool.ts';

/** Registers the connections of the process's database pool. */
export function measurePool(pool: Pool, registry: Registry): void {
  new Gauge({
    name: 'purser_database_pool_connections',
    help: 'Connections to the database, by state: idle or busy.',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      this.set({ state: 'idle' }, pool.idleCount);
      this.set({ state: 'busy' }, pool.totalCount - pool.idleCount);
    },
  });
  new Gauge({
    name: 'purser_database_pool_connections_max',
    help: 'Connections that the pool may have (PURSER_DATABASE_POOL).',
    registers: [registry],
  }).set(pool.options.max);
  new Gauge({
    name: 'purser_database_pool_waiting',
    help: 'Who waits for a connection because all are busy.',
    registers: [registry],
    collect() {
      this.set(pool.waitingCount);
    },
  });
}
