// Key generation and refresh block a thread for up to seconds, so each runs in a worker thread of its own.
// The module is both sides: `startShareWorker` in the main thread, the body in the worker.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import {
  type EngineError,
  type FaultKind,
  type KeyShare,
  type ShareSession,
  type ThresholdEngine,
  toEngineError,
} from './engine.ts';
import { type EngineChoice, loadEngine } from './load.ts';

/** What a thread does, each with a fresh session id of 32 bytes that all parties share. */
export type ShareJob = { build: EngineChoice; sessionId: Uint8Array } & (
  | { kind: 'keygen'; party: number; threshold: number; parties: number }
  | { kind: 'refresh' | 'complete-refresh'; share: Uint8Array }
);

type Command = { start: true } | { step: Uint8Array } | { take: true };
type Reply = { bytes: Uint8Array } | { fault: { kind: FaultKind; culprit: number | null; message: string } };

/**
 * One party's part in making shares, in a thread. Any fault ends the thread, and its memory goes with it. Faults of the
 * protocol are EngineErrors; a thread that broke is an ordinary Error, because the main thread's engine is none the worse.
 */
export interface ShareWorker {
  /** Batch of round 1. */
  start(): Promise<Uint8Array>;
  /** Inbound batch of a round → outbound batch of the next; the last is empty. */
  step(inbound: Uint8Array): Promise<Uint8Array>;
  /** The new secret share; the thread ends. */
  takeShare(): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Starts the thread. `share` of the job is cleared before this returns: the thread has its own copy, and clears it too. */
export function startShareWorker(job: ShareJob): ShareWorker {
  const worker = startThread(job);
  let fatal: Error | undefined;
  let isOver = false;
  worker.on('error', (error) => {
    fatal = error;
  });
  worker.on('exit', () => {
    isOver = true;
  });

  async function call(command: Command): Promise<Uint8Array> {
    if (fatal || isOver) throw broken(fatal);
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const ended = () => reject(broken(fatal));
    worker.once('message', resolve).once('exit', ended);
    worker.postMessage(command);
    const reply = await promise.finally(() => worker.off('message', resolve).off('exit', ended));
    if ('bytes' in reply) return reply.bytes;
    await worker.terminate();
    const { message, ...fields } = reply.fault;
    if (fields.kind === 'fatal') throw new Error(`the thread of the threshold engine failed: ${message}`);
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

function startThread(job: ShareJob): Worker {
  try {
    return new Worker(new URL(import.meta.url), { workerData: { shareJob: job } });
  } finally {
    if ('share' in job) job.share.fill(0);
  }
}

function broken(cause: Error | undefined): Error {
  return new Error(`the thread of the threshold engine ended: ${cause?.message ?? 'it was closed'}`, { cause });
}

function openSession(engine: ThresholdEngine, job: ShareJob): ShareSession {
  if (job.kind === 'keygen') return new engine.DkgSession(job.party, job.threshold, job.parties, job.sessionId);
  const share = openShare(engine, job.share);
  try {
    const Refresh = job.kind === 'refresh' ? engine.RefreshSession : engine.CompleteRefreshSession;
    return new Refresh(share, job.sessionId);
  } finally {
    share.free();
  }
}

function openShare(engine: ThresholdEngine, bytes: Uint8Array): KeyShare {
  try {
    return engine.KeyShare.fromBytes(bytes);
  } finally {
    bytes.fill(0);
  }
}

function takeShare(session: ShareSession): Uint8Array {
  const share = session.takeShare();
  try {
    return share.toBytes();
  } finally {
    share.free();
  }
}

async function serve(job: ShareJob): Promise<void> {
  const port = parentPort!;
  const engine = await loadEngine(job.build);
  let session: ShareSession | undefined;
  const run = (command: Command): Uint8Array => {
    session ??= openSession(engine, job);
    if ('start' in command) return session.start();
    return 'step' in command ? session.step(command.step) : takeShare(session);
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
    if ('take' in command && 'bytes' in reply) reply.bytes.fill(0);
  });
}

if (!isMainThread && workerData?.shareJob) await serve(workerData.shareJob as ShareJob);
