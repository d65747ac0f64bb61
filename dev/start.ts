// npm start: brings up everything that Purser needs on one machine, says where it is, and stops it on Ctrl-C.
import { fail, printResult, readCommandLine } from '../shared/command-line.ts';
import { openHome } from './home.ts';
import { stackPorts } from './ports-of-stack.ts';
import { startGuard } from './process.ts';
import { createProgress } from './progress.ts';
import { screen } from './screen.ts';
import { startStack } from './stack.ts';

const USAGE = `Usage: npm start [-- [--reset] [--bitcoin] [--json]]

  --reset     forget all data of this home first: database, workflows, chain, keys, mail
  --bitcoin   a local Bitcoin network as well (regtest): a btcd node, built on first use, for which Go is needed, or
              PURSER_BTCD_BINARY that names one
  --json      says where everything is as one JSON value, once it is up; everything else goes to the error output
  --help      this text

  Exit status: 0 stopped as asked, 1 failed, 2 the command line is wrong.

  PURSER_HOME (default .purser) holds all data. Ports: PURSER_PORT 8080, PURSER_TEMPORAL_PORT 7233,
  PURSER_TEMPORAL_UI_PORT 8233, PURSER_POSTGRES_PORT 5433, PURSER_RPC_PORT 8545,
  PURSER_SIGNER_PORTS 7101,7102,7103, PURSER_MAIL_PORT 8025, PURSER_SMTP_PORT 1025,
  PURSER_PROVIDER_PORT 9080, PURSER_BITCOIN_PORT 3002; 0 picks a free one.
  TEMPORAL_ADDRESS and DATABASE_URL (with DATABASE_OWNER_URL) use servers of yours instead.
`;

/** Resolves with a reason when somebody wants us to end: a signal, or the death of whoever started us. */
function stopRequest(): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => resolve(signal));
    // dev/bootstrap.mjs holds the other end of this channel; it closes with it, also after kill -9.
    if (process.channel) {
      process.on('disconnect', () => resolve('the starting command is gone'));
      process.channel.unref();
    }
  });
}

async function main(): Promise<void> {
  const values = readCommandLine(USAGE, { options: { reset: { type: 'boolean' }, bitcoin: { type: 'boolean' } } });
  // Nobody may read us any more (`npm start | head`); that is no reason to die without stopping the others.
  process.stdout.on('error', () => {});
  process.stderr.on('error', () => {});
  const stopped = stopRequest();
  const from = performance.now();
  const home = openHome(process.env, { reset: values.reset ?? false });
  const ports = await stackPorts(process.env, { bitcoin: values.bitcoin ?? false });
  const guard = startGuard();
  const progress = createProgress(values.json ? process.stderr : process.stdout);
  const ending = new AbortController();
  try {
    const starting = startStack({ env: process.env, home, ports, guard, progress, signal: ending.signal });
    const stack = await Promise.race([starting, stopped]);
    if (typeof stack === 'string') {
      // The guard stops what has come up so far; whatever the rest of the start says no longer matters.
      starting.catch(() => {});
      progress.line(`Stopping before everything was up (${stack}) …`);
      return;
    }
    const seconds = (performance.now() - from) / 1000;
    printResult(stack.facts, {
      json: values.json,
      show: (facts) => `${screen({ facts, homePath: home.path, seconds })}\n`,
    });
    progress.line(`\nStopping (${await stopped}) …`);
    await stack.stop();
  } finally {
    ending.abort();
    progress.stop();
    await guard.stop();
    home.close();
  }
  (values.json ? process.stderr : process.stdout).write('Everything is stopped.\n');
}

try {
  await main();
  process.exit(0);
} catch (error) {
  const full = (error as NodeJS.ErrnoException).code === 'ENOSPC';
  fail(full ? `The disk is full: ${(error as Error).message}` : (error as Error).message);
}
