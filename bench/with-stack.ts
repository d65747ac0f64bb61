import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LOCAL_CHAIN } from '../dev/anvil.ts';
import { type DevFacts, type Home, openHome } from '../dev/home.ts';
import { type StackPorts, stackPorts } from '../dev/ports-of-stack.ts';
import { startGuard } from '../dev/process.ts';
import type { Progress } from '../dev/progress.ts';
import { startStack } from '../dev/stack.ts';

/** A second chain, whose wallets no faucet fills. It is never asked: no payment is made on it. */
export const unfundedChain = 'eip155:84532';
const nobody = 'http://127.0.0.1:9';

/** Worker processes: as few as make the service survive the loss of one. */
const workers = 2;

/** A stack that runs for one measurement. */
export interface BenchStack {
  readonly facts: DevFacts;
  readonly home: Home;
  readonly ports: StackPorts;
}

/**
 * Brings up a stack of its own, with two workers, in a folder of its own on free ports, runs `use`, and stops everything, whatever happens.
 * Settings of the caller's environment hold, except where the data is, where the parts listen, and that no spare keys
 * are made beside the measurement. After a failure the folder is kept, for its logs.
 * @param o.bitcoin a local Bitcoin network besides @param o.more settings beyond those of every measurement
 * @throws what `use` throws, and the reason of `signal`
 */
export async function withStack<T>(
  {
    env,
    progress,
    signal,
    bitcoin = false,
    more = {},
  }: {
    env: NodeJS.ProcessEnv;
    progress: Progress;
    signal: AbortSignal;
    bitcoin?: boolean;
    more?: NodeJS.ProcessEnv;
  },
  use: (stack: BenchStack) => Promise<T>,
): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-bench-'));
  const stackEnv = { ...benchEnv(env, dir), ...more };
  const home = openHome(stackEnv, { reset: false });
  const guard = startGuard();
  const ending = new AbortController();
  let isDone = false;
  try {
    const ports = { ...(await stackPorts(stackEnv, { bitcoin })), temporalUi: undefined };
    const starting = startStack({ env: stackEnv, home, ports, guard, progress, signal: ending.signal, workers });
    const stack = await unlessAborted(starting, signal);
    try {
      return await unlessAborted(use({ facts: stack.facts, home, ports }), signal);
    } finally {
      isDone = true;
      progress.line('Stopping …');
      await stack.stop();
    }
  } catch (error) {
    if (!signal.aborted) {
      progress.line(`The logs are in ${home.file('logs')}.`);
      isDone = false;
    }
    throw error;
  } finally {
    ending.abort();
    await guard.stop();
    home.close();
    if (isDone || signal.aborted) rmSync(dir, { recursive: true, force: true });
  }
}

function benchEnv(env: NodeJS.ProcessEnv, dir: string): NodeJS.ProcessEnv {
  return {
    ...env,
    PURSER_HOME: dir,
    PURSER_PORT: '0',
    PURSER_RPC_PORT: '0',
    PURSER_TEMPORAL_PORT: '0',
    PURSER_POSTGRES_PORT: '0',
    PURSER_SIGNER_PORTS: '0',
    PURSER_TEMPORAL_UI_PORT: '0',
    PURSER_MAIL_PORT: '0',
    PURSER_SMTP_PORT: '0',
    PURSER_PROVIDER_PORT: '0',
    PURSER_BITCOIN_PORT: '0',
    TEMPORAL_ADDRESS: undefined,
    DATABASE_URL: undefined,
    PURSER_SPARE_KEYS: '0',
    PURSER_CHAINS: `${LOCAL_CHAIN},${unfundedChain}`,
    PURSER_RPC_EIP155_84532: nobody,
  };
}

/** The result, or at once the reason of the signal; what still runs then fails unheard, because its stack goes away. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => {});
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  return Promise.race([work, promise]).finally(() => signal.removeEventListener('abort', abort));
}
