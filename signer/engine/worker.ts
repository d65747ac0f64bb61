// Key generation blocks a thread for seconds, so each runs in a worker thread of its own.
// The module is both sides: `startKeygenWorker` in the main thread, the body in the worker.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { type EngineError, type FaultKind, type ShareSession, toEngineError } from './engine.ts';
import { type EngineChoice, loadEngine } from './load.ts';

interface Job {
  build: EngineChoice;
  party: number;
  threshold: number;
  parties: number;
  sessionId: Uint8Array;
}

type Command = { start: true } | { step: Uint8Array } | { take: true };
type Reply = { bytes: Uint8Array } | { fault: { kind: FaultKind; culprit: number | null; message: string } };

/**
 * One party's key generation in a thread. Any fault ends the thread, and its memory goes with it. Faults of the protocol
 * are EngineErrors; a thread that broke is an ordinary Error, because the main thread's engine is none the worse.
 */
export interface KeygenWorker {
  /** Batch of round 1. */
  start(): Promise<Uint8Array>;
  /** Inbound batch of a round → outbound batch of the next; the last is empty. */
  step(inbound: Uint8Array): Promise<Uint8Array>;
  /** The secret share; the thread ends. */
  takeShare(): Promise<Uint8Array>;
  close(): Promise<void>;
}

export function startKeygenWorker(job: Job): KeygenWorker {
  const worker = new Worker(new URL(import.meta.url), { workerData: { keygen: job } });
  let fatal: Error | undefined;
  worker.on('error', (error) => {
    fatal = error;
  });

  async function call(command: Command): Promise<Uint8Array> {
    if (fatal) throw broken(fatal);
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const ended = () => reject(broken(fatal));
    worker.once('message', resolve).once('exit', ended);
    worker.postMessage(command);
    const reply = await promise.finally(() => worker.off('message', resolve).off('exit', ended));
    if ('bytes' in reply) return reply.bytes;
    await worker.terminate();
    const { message, ...fields } = reply.fault;
    if (fields.kind === 'fatal') throw new Error(`the key generation thread failed: ${message}`);
    throw Object.assign(new Error(message), fields) satisfies EngineError;
  }

  return {
    start: () => call({ start: true }),
    step: (inbound) => call({ step: inbound }),
    async takeShare() {
      const share = await call({ take: true });
      await worker.terminate();
      return share;
    },
    async close() {
      await worker.terminate();
    },
  };
}

function broken(cause: Error | undefined): Error {
  return new Error(`the key generation thread ended: ${cause?.message ?? 'it was closed'}`, { cause });
}

async function serve({ build, party, threshold, parties, sessionId }: Job): Promise<void> {
  const port = parentPort!;
  const engine = await loadEngine(build);
  const session: ShareSession = new engine.DkgSession(party, threshold, parties, sessionId);
  const run = (command: Command): Uint8Array => {
    if ('start' in command) return session.start();
    if ('step' in command) return session.step(command.step);
    const share = session.takeShare();
    const bytes = share.toBytes();
    share.free();
    return bytes;
  };
  port.on('message', (command: Command) => {
    let reply: Reply;
    try {
      reply = { bytes: run(command) };
    } catch (error) {
      const { kind, culprit, message } = toEngineError(error);
      reply = { fault: { kind, culprit, message } };
    }
    port.postMessage(reply);
  });
}

if (!isMainThread && workerData?.keygen) await serve(workerData.keygen as Job);
