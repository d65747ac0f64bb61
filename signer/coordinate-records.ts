import type { SignerPeer, SignerTransport } from './call.ts';
import { newSession } from './new-session.ts';
import type { Party } from './parties.ts';

/** What one signer was told. */
export interface MergedRecords {
  keyId: string;
  party: Party;
  /** How many pages of records each of the others had. */
  pages: number;
}

export interface MergeRequest {
  keyId: string;
  /** Who lacks records. */
  party: Party;
}

/**
 * Has one signer told what the two others recorded of a key; then it signs with it again. Interrupted anywhere, it begins
 * anew; repeating it changes nothing.
 * @throws RefusedBySigner, NoAnswer
 */
export async function coordinateMerge(
  transport: SignerTransport,
  p: MergeRequest & { peers: readonly SignerPeer[]; timeoutMs: number; signal?: AbortSignal },
): Promise<MergedRecords> {
  const { keyId, party, peers } = p;
  const target = peers.find((peer) => peer.party === party)!;
  const options = { session: newSession(), timeoutMs: p.timeoutMs, signal: p.signal };
  const { merge } = await transport.call<{ merge: string }>(target, {
    path: '/v1/records/merge',
    body: { keyId },
    ...options,
  });
  let pages = 0;
  for (const peer of peers) {
    if (peer === target) continue;
    for (let cursor: object | null | undefined; cursor !== null; pages += 1) {
      const told = await transport.call<{ page: string; next: object | null }>(peer, {
        path: '/v1/records/export',
        body: { keyId, to: party, merge, ...(cursor && { cursor }) },
        ...options,
      });
      const body = { from: peer.party, page: told.page };
      await transport.call(target, { path: '/v1/records/import', body, ...options });
      cursor = told.next;
    }
  }
  return { keyId, party, pages };
}
