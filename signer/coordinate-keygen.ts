import type { Hex } from 'viem';
import { NoAnswer, type SignerPeer, type SignerTransport } from './call.ts';
import { tellAbort } from './coordinate-sign.ts';
import { SignerFault } from './errors.ts';
import { newSession } from './new-session.ts';
import { KEYGEN_ROUNDS, type Party } from './parties.ts';

/** A commit that got no answer is sent again: it may have arrived, and repeating it changes nothing. */
const COMMIT_ATTEMPTS_MAX = 3;

export interface GeneratedKey {
  keyId: string;
  /** Uncompressed, 65 bytes. */
  publicKey: Hex;
  /** BIP-32 chain code, 32 bytes. */
  chainCode: Hex;
}

type Outbound = { messages: { to: Party; message: string }[] };
type Stored = { publicKey: Hex; chainCode: Hex; attestation: string };

/**
 * Runs one key generation among all three, and makes the key usable once each has stored its share.
 * @throws RefusedBySigner, NoAnswer, SignerFault; the key id is then given up by all that can be reached
 */
export async function coordinateKeygen(
  transport: SignerTransport,
  p: {
    peers: readonly SignerPeer[];
    keyId: string;
    ownerKey?: string | undefined;
    timeoutMs: number;
    signal: AbortSignal;
  },
): Promise<GeneratedKey> {
  const session = newSession();
  const { keyId, ownerKey, timeoutMs, signal } = p;
  const options = { session, timeoutMs, signal };
  try {
    let outbound = await all(p.peers, (peer) =>
      transport.call<Outbound>(peer, {
        path: '/v1/keygen/start',
        body: { keyId, ...(ownerKey && { ownerKey }) },
        ...options,
      }),
    );
    for (let round = 1; round < KEYGEN_ROUNDS; round++) {
      outbound = await step<Outbound>(transport, { ...p, session, round, outbound });
    }
    const stored = await step<Stored>(transport, { ...p, session, round: KEYGEN_ROUNDS, outbound });
    return await commit(transport, { ...p, session, stored });
  } catch (error) {
    for (const peer of p.peers) tellAbort(transport, { peer, session, timeoutMs });
    throw error;
  }
}

interface Run {
  peers: readonly SignerPeer[];
  keyId: string;
  session: string;
  timeoutMs: number;
  signal: AbortSignal;
}

/** Brings everybody the messages of a round that are meant for it. */
async function step<T>(
  transport: SignerTransport,
  p: Run & { round: number; outbound: ReadonlyMap<Party, Outbound> },
): Promise<Map<Party, T>> {
  const { session, timeoutMs, signal, round } = p;
  return all(p.peers, (peer) => {
    const messages = [...p.outbound].flatMap(([from, { messages }]) =>
      messages.filter(({ to }) => to === peer.party).map(({ message }) => ({ from, message })),
    );
    return transport.call<T>(peer, { path: '/v1/keygen/step', body: { round, messages }, session, timeoutMs, signal });
  });
}

async function commit(
  transport: SignerTransport,
  p: Run & { stored: ReadonlyMap<Party, Stored> },
): Promise<GeneratedKey> {
  const { keyId, session, timeoutMs, signal } = p;
  const [first, ...rest] = p.stored.values();
  const { publicKey, chainCode } = first!;
  if (rest.some((other) => other.publicKey !== publicKey || other.chainCode !== chainCode)) {
    throw new SignerFault({ message: `the signers do not agree on the public key of ${keyId}` });
  }
  const attestations = [...p.stored].map(([party, { attestation }]) => ({ party, attestation }));
  const body = { keyId, publicKey, chainCode, attestations };
  await all(p.peers, async (peer) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await transport.call<object>(peer, { path: '/v1/keygen/commit', session, body, timeoutMs, signal });
      } catch (error) {
        if (!(error instanceof NoAnswer) || attempt >= COMMIT_ATTEMPTS_MAX) throw error;
      }
    }
  });
  return { keyId, publicKey, chainCode };
}

/** Waits for all to end, then throws the first error: an abort must not overtake a request that is under way. */
async function all<T>(peers: readonly SignerPeer[], run: (peer: SignerPeer) => Promise<T>): Promise<Map<Party, T>> {
  const results = await Promise.allSettled(peers.map(run));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  return new Map(peers.map((peer, i) => [peer.party, (results[i] as PromiseFulfilledResult<T>).value]));
}
