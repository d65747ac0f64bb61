import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { inject } from 'vitest';
import { freePort } from '../../dev/ports.ts';
import { startGuard } from '../../dev/process.ts';
import { startTemporal } from '../../dev/temporal.ts';

/** A client of the Temporal server that all tests of a run share. */
export interface TestTemporal {
  address: string;
  client: Client;
  connection: Connection;
  close(): Promise<void>;
}

/** Connects to the shared server. Use workflow ids and task queues that no other test uses. */
export async function connectTestTemporal(): Promise<TestTemporal> {
  const { temporalAddress: address } = inject('stack');
  const connection = await Connection.connect({ address });
  return { address, client: new Client({ connection }), connection, close: () => connection.close() };
}

/** A server of one test's own, kept on disk, that may be killed and started again at the same address. */
export interface OwnTemporal {
  address: string;
  pid(): number;
  /** Starts it again, with its data, after it was killed or stopped. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts such a server; some 1.2 s. */
export async function startOwnTemporal(): Promise<OwnTemporal> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-temporal-'));
  const guard = startGuard();
  const port = await freePort();
  const start = () =>
    startTemporal(guard, {
      binary: inject('stack').temporalBinary,
      port,
      dbFile: join(dir, 'temporal.db'),
      logFile: join(dir, 'temporal.log'),
    });
  let server = await start();
  return {
    address: server.address,
    pid: () => server.pid,
    async restart() {
      await server.stop();
      server = await start();
    },
    async stop() {
      await server.stop();
      await guard.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
