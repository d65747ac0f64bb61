import { inspect } from 'node:util';
import { ConfigError } from '../shared/config.ts';
import { withoutSecrets } from '../shared/domain/without-secrets.ts';
import { runWorker } from './run.ts';

runWorker({ env: process.env }).then(
  () => process.exit(0),
  (error: unknown) => {
    // A wrong configuration is told to the person at the console; anything else is a fault with a stack.
    console.error(error instanceof ConfigError ? error.message : withoutSecrets(inspect(error)));
    process.exit(1);
  },
);
