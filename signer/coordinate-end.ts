import type { SignerPeer, SignerTransport } from './call.ts';
import { SignerUnavailable } from './errors.ts';
import { newSession } from './new-session.ts';

/** A payment that was given a nonce, and is not to be made. */
export interface EndRequest {
  keyId: string;
  /** See shared/domain/slot.ts. */
  slot: string;
  transactionId: string;
}

/** So many signers have to know of nothing. */
const SIGNERS_MIN = 2;

/**
 * Asks the signers whether anything can have been signed for a payment or at its nonce, and has them never sign it where
 * nothing was. Repeating it changes nothing.
 * @returns true: nothing was, and nothing will be; the nonce may go to another payment. False: something may have been
 * @throws SignerUnavailable while fewer than two can tell
 */
export async function coordinateEnd(
  transport: SignerTransport,
  p: { peers: readonly SignerPeer[]; request: EndRequest; timeoutMs: number },
): Promise<boolean> {
  const { keyId, slot, transactionId } = p.request;
  const asked = { path: '/v1/records/end-unsigned', body: { keyId, slot, transactionId } } as const;
  const options = { session: newSession(), timeoutMs: p.timeoutMs };
  const failures: string[] = [];
  const answers = await Promise.all(
    p.peers.map((peer) =>
      transport.call<{ isUnsigned: boolean }>(peer, { ...asked, ...options }).catch((error: Error) => {
        failures.push(error.message);
      }),
    ),
  );
  const told = answers.flatMap((answer) => answer ?? []);
  if (told.some(({ isUnsigned }) => !isUnsigned)) return false;
  if (told.length >= SIGNERS_MIN) return true;
  throw new SignerUnavailable(`too few signers tell what was signed for ${transactionId}: ${failures.join('; ')}`);
}
