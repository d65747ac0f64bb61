import type { SignerPeer, SignerTransport } from './call.ts';
import { newSession } from './new-session.ts';
import type { SignerStatus, StatusPage } from './status.ts';

/** One page. */
const TIMEOUT_MS = 10_000;
/** A signer that goes on for longer than this tells tales. */
const PAGES_MAX = 1_000;

/** Everything that one signer holds, page by page. @throws RefusedBySigner, NoAnswer, Error */
export async function askStatus(transport: SignerTransport, peer: SignerPeer): Promise<SignerStatus> {
  const askPage = (after: string) =>
    transport.call<StatusPage>(peer, {
      path: '/v1/status',
      session: newSession(),
      body: { after },
      timeoutMs: TIMEOUT_MS,
    });
  const { next: second, ...all } = await askPage('');
  let next = second ?? null;
  for (let page = 2; next !== null; page += 1) {
    if (page > PAGES_MAX) throw new Error(`signer ${peer.party} tells of more keys than there can be`);
    const more = await askPage(next);
    for (const name of ['keys', 'bans', 'limits'] as const) (all[name] as unknown[]).push(...more[name]);
    next = more.next;
  }
  return all;
}
