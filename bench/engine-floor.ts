import { randomBytes } from 'node:crypto';
import { decodeBatch, encodeBatch, type KeyShare, type ThresholdEngine } from '../signer/engine/engine.ts';
import { type EngineChoice, loadEngine } from '../signer/engine/load.ts';
import { startShareWorker } from '../signer/engine/worker.ts';
import { KEYGEN_ROUNDS, PARTIES, THRESHOLD } from '../signer/parties.ts';
import { timed } from './samples.ts';

/** A signature's mere computation: both parties in this process, no network, no checks, no storage. */
export interface EngineFloor {
  readonly build: ThresholdEngine['build'];
  /** Milliseconds. */
  signMs(): Promise<number>;
}

/** Makes a key of its own, whose shares live in this process only. */
export async function createEngineFloor({ engine: choice }: { engine: EngineChoice }): Promise<EngineFloor> {
  const engine = await loadEngine(choice);
  const [first, second] = await generateShares({ engine, choice });
  return {
    build: engine.build,
    signMs: () => timed(async () => sign(engine, { initiator: first!, joiner: second! })),
  };
}

async function generateShares({
  engine,
  choice,
}: {
  engine: ThresholdEngine;
  choice: EngineChoice;
}): Promise<KeyShare[]> {
  const sessionId = randomBytes(32);
  const parties = PARTIES.map((party) =>
    startShareWorker({
      kind: 'keygen',
      build: choice,
      party,
      threshold: THRESHOLD,
      parties: PARTIES.length,
      sessionId,
    }),
  );
  try {
    let sent = await Promise.all(parties.map((worker) => worker.start()));
    for (let round = 1; round <= KEYGEN_ROUNDS; round += 1) {
      const messages = sent.flatMap(decodeBatch);
      sent = await Promise.all(
        parties.map((worker, index) => {
          const own = PARTIES[index]!;
          const inbound = messages.filter(({ from, to }) => from !== own && (to === own || to === 0));
          return worker.step(encodeBatch(inbound));
        }),
      );
    }
    const shares = await Promise.all(parties.map((worker) => worker.takeShare()));
    return shares.map((bytes) => engine.KeyShare.fromBytes(bytes));
  } finally {
    await Promise.all(parties.map((worker) => worker.close()));
  }
}

/** The same rounds in the same order as signer/sign.ts takes them. */
function sign(engine: ThresholdEngine, { initiator, joiner }: { initiator: KeyShare; joiner: KeyShare }): Uint8Array {
  const [sessionId, digest] = [randomBytes(32), randomBytes(32)];
  const a = new engine.SignSession(initiator, sessionId, digest, Uint8Array.of(joiner.party));
  const b = new engine.SignSession(joiner, sessionId, digest, Uint8Array.of(initiator.party));
  try {
    const a1 = a.start();
    const [b1, b2] = [b.start(), b.step(a1)];
    const [a2, a3] = [a.step(b1), a.step(b2)];
    b.step(a2);
    b.step(a3);
    return b.takeSignature();
  } finally {
    a.free();
    b.free();
  }
}
