// One signer: one party, one process. Configured by environment, see config.ts.
import type { AddressInfo } from 'node:net';
import { openMetrics } from '../shared/metrics/open-metrics.ts';
import { createStopSignal } from '../shared/stop-signal.ts';
import { unknownVariables } from '../shared/unknown-variables.ts';
import { composeSigner } from './compose.ts';
import { readSignerConfig } from './config.ts';
import { measureSigner } from './metrics.ts';
import { createSignerServer } from './server.ts';

/** Runs under way get this long to finish when the process is told to stop; others are refused, and go elsewhere. */
const STOP_GRACE_MS = 8_000;
/** sysexits.h EX_SOFTWARE: the engine broke, start me again. */
const EXIT_ENGINE_BROKEN = 70;

async function start(): Promise<void> {
  const config = readSignerConfig(process.env);
  const context = await composeSigner(config);
  const { log } = context;
  for (const sentence of unknownVariables(process.env)) log.warn(sentence);
  const metrics = await openMetrics(config.metrics, { process: 'signer', log });
  const server = createSignerServer(context, {
    onServed: measureSigner(context, metrics.registry),
    onBroken(error) {
      log.fatal({ err: error }, 'the engine broke; this process ends');
      stop(EXIT_ENGINE_BROKEN);
    },
  });
  let stopping = false;
  function stop(exitCode: number): void {
    if (stopping) return;
    stopping = true;
    const finish = () => {
      context.sessions.stop();
      context.kekRotation.stop();
      context.backup.stop();
      context.shares.clear();
      context.store.close();
      log.info('stopped');
      process.exit(exitCode);
    };
    setTimeout(finish, STOP_GRACE_MS).unref();
    // Between two messages of a run its connection is idle, and closing would end the run; a broken engine ends them all.
    const drained = exitCode === 0 ? context.sessions.drain() : Promise.resolve();
    void drained.then(() => server.close(finish));
  }
  createStopSignal({ log }).addEventListener('abort', () => stop(0), { once: true });
  server.on('error', (error) => {
    log.fatal(`cannot listen on ${config.host}:${config.port}: ${error.message}`);
    stop(1);
  });
  context.kekRotation.start();
  context.backup.start();
  server.listen(config.port, config.host, () => {
    const { port } = server.address() as AddressInfo;
    const { build } = context.engine;
    log.info({ host: config.host, port, engine: build, keys: context.store.countKeys() }, 'signer is ready');
  });
}

start().catch((error: unknown) => {
  console.error(`signer: ${error instanceof Error ? error.message : error}`);
  process.exit(1);
});
