import { randomBytes } from 'node:crypto';
import { recoverAddress, toHex } from 'viem';
import {
  decodeBatch,
  type EngineError,
  encodeBatch,
  type KeyShare,
  type Message,
  type ShareSession,
  type SignSession,
  type ThresholdEngine,
} from '../../../signer/engine/engine.ts';

export const SHARE_ROUNDS = 4;
const SIGN_ROUNDS = 3;

export function freshId(): Uint8Array {
  return new Uint8Array(randomBytes(32));
}

/** What a party's session does, here or in a thread. */
interface Rounds {
  start(): Uint8Array | Promise<Uint8Array>;
  step(inbound: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

/** Sees every message before its receiver does, and may answer another body. */
export type Tamper = (p: { round: number; message: Message; receiver: number }) => Uint8Array;

export interface Party<S> {
  party: number;
  session: S;
}

/**
 * Plays all rounds, delivering every message to whom it is for. A party whose session fails says nothing any more.
 * @returns the error of each party that failed
 */
export async function play(
  parties: readonly Party<Rounds>[],
  { rounds, tamper = ({ message }) => message.body }: { rounds: number; tamper?: Tamper },
): Promise<Map<number, EngineError>> {
  const failed = new Map<number, EngineError>();
  let sent = (await Promise.all(parties.map(({ session }) => session.start()))).flatMap(decodeBatch);
  for (let round = 1; round <= rounds; round += 1) {
    const alive = parties.filter(({ party }) => !failed.has(party));
    const answers = alive.map(async ({ party, session }) => {
      const inbound = sent
        .filter(({ from, to }) => from !== party && (to === party || to === 0))
        .map((message) => ({ ...message, body: tamper({ round, message, receiver: party }) }));
      try {
        return await session.step(encodeBatch(inbound));
      } catch (error) {
        failed.set(party, error as EngineError);
        return encodeBatch([]);
      }
    });
    sent = (await Promise.all(answers)).flatMap(decodeBatch);
  }
  return failed;
}

/** Plays a session that makes shares to its end. @throws EngineError of the first party that failed */
export async function makeShares(parties: readonly Party<ShareSession>[]): Promise<KeyShare[]> {
  const [failure] = (await play(parties, { rounds: SHARE_ROUNDS })).values();
  if (failure) throw failure;
  return parties.map(({ session }) => session.takeShare());
}

/** One holder of a share, and the engine that holds it: two parties need not run the same build. */
export interface Holder {
  engine: ThresholdEngine;
  share: KeyShare;
}

/** Lets two holders sign a fresh digest. @returns the errors of those that failed, and the signature of the others */
export async function sign(a: Holder, b: Holder) {
  const [sessionId, digest] = [freshId(), freshId()];
  const open = (own: Holder, other: Holder): Party<SignSession> => ({
    party: own.share.party,
    session: new own.engine.SignSession(own.share, sessionId, digest, Uint8Array.of(other.share.party)),
  });
  const parties = [open(a, b), open(b, a)];
  const failed = await play(parties, { rounds: SIGN_ROUNDS });
  const done = parties.filter(({ party }) => !failed.has(party));
  return { digest, failed, signatures: done.map(({ session }) => toHex(session.takeSignature())) };
}

/** Lets two holders sign. @returns the address that both their signatures recover to */
async function signerOf(a: Holder, b: Holder): Promise<string> {
  const { digest, failed, signatures } = await sign(a, b);
  const [failure] = failed.values();
  if (failure) throw failure;
  const [first, second] = signatures;
  if (first !== second) throw new Error(`one party has the signature ${first}, the other ${second}`);
  return recoverAddress({ hash: toHex(digest), signature: first! });
}

/** Every pair of the holders signs. @returns the addresses that the signatures recover to, without repeats */
export async function signersOfPairs(holders: readonly Holder[]): Promise<string[]> {
  const found = new Set<string>();
  for (const [i, a] of holders.entries()) {
    for (const b of holders.slice(i + 1)) found.add(await signerOf(a, b));
  }
  return [...found];
}

export function flipBit(bytes: Uint8Array, bit: number): Uint8Array {
  const flipped = Uint8Array.from(bytes);
  const place = bit % (8 * bytes.length);
  flipped[place >> 3]! ^= 1 << (place & 7);
  return flipped;
}
