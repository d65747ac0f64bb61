import { inspect } from 'node:util';
import { withoutSecrets } from '../shared/domain/without-secrets.ts';
import { ConfigError } from '../shared/read-env.ts';
import { runWorker } from './run.ts';

runWorker({ env: process.env }).then(
  () => process.exit(0),
  (error: unknown) => {
    // A wrong configuration is told to the person at the console; anything else is a fault with a stack.
    console.error(error instanceof ConfigError ? error.message : withoutSecrets(inspect(error)));
    process.exit(1);
  },
);
