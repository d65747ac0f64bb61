// One run that fills wallets up, by itself, for tests that kill it between storing a payment and starting it:
// node test/support/gas-process.ts DATABASE_URL. Says `starting` then, and stands still.
import type { Client } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { createTopUpGas } from '../../activities/top-up-gas.ts';
import { createRegistry } from '../../shared/chain/registry.ts';
import { createPool } from '../../shared/db/pool.ts';
import { createLogger } from '../../shared/log.ts';

/** A double of Temporal's client, which never answers. */
const client = {
  workflow: {
    start: () => {
      process.stdout.write('starting\n');
      return new Promise(() => setInterval(() => {}, 60_000));
    },
  },
} as unknown as Client;
const pool = createPool({ url: process.argv[2]!, application: 'gas-process' });
const registry = createRegistry({ environment: 'sandbox', enabled: ['eip155:31337'] });
const logger = createLogger({ process: 'test', level: 'warn' });
await new MockActivityEnvironment().run(createTopUpGas({ pool, client, registry, logger }));
