import type { Hex } from 'viem';
import type { SignerPeer, SignerTransport } from './call.ts';
import { askAll, insistOnAll, relayRound } from './coordinate-rounds.ts';
import { tellAbort } from './coordinate-sign.ts';
import { SignerFault } from './errors.ts';
import { newSession } from './new-session.ts';
import { KEYGEN_ROUNDS, type Party } from './parties.ts';
import type { Outbound } from './rounds.ts';

export interface GeneratedKey {
  keyId: string;
  /** Uncompressed, 65 bytes. */
  publicKey: Hex;
  /** BIP-32 chain code, 32 bytes. */
  chainCode: Hex;
}

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
  const step = { peers: p.peers, path: '/v1/keygen/step', ...options } as const;
  try {
    let outbound = await askAll(p.peers, (peer) =>
      transport.call<Outbound>(peer, {
        path: '/v1/keygen/start',
        body: { keyId, ...(ownerKey && { ownerKey }) },
        ...options,
      }),
    );
    for (let round = 1; round < KEYGEN_ROUNDS; round++) {
      outbound = await relayRound<Outbound>(transport, { ...step, round, outbound });
    }
    const stored = await relayRound<Stored>(transport, { ...step, round: KEYGEN_ROUNDS, outbound });
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
  const question = { path: '/v1/keygen/commit', session, body, timeoutMs, signal } as const;
  await insistOnAll<object>(transport, { ...question, peers: p.peers });
  return { keyId, publicKey, chainCode };
}
