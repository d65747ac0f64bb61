import { encodePaymentSignatureHeader } from '@x402/core/http';
import type { X402PaymentRow } from '../shared/db/x402-payments.ts';
import type { TransferAuthorization } from '../shared/domain/receipt.ts';

/** What the official encoder takes, of either version of the protocol. */
type PaymentPayload = Parameters<typeof encodePaymentSignatureHeader>[0];

/**
 * The value of the header that pays: `PAYMENT-SIGNATURE`, or `X-PAYMENT` of version 1. What the target wrote is echoed
 * as it wrote it.
 * @param signature r | s | v, 65 bytes
 * @see x402 specification, scheme `exact` on EVM chains
 */
export function paymentHeader(
  { x402_version, offer: { resource, accepted, extensions } }: Pick<X402PaymentRow, 'x402_version' | 'offer'>,
  { authorization, signature }: { authorization: TransferAuthorization; signature: `0x${string}` },
): string {
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const payload = {
    signature,
    authorization: { from, to, value, validAfter: `${validAfter}`, validBefore: `${validBefore}`, nonce },
  };
  const { scheme, network } = accepted;
  const whole =
    x402_version === 1
      ? { x402Version: 1, scheme, network, payload }
      : {
          x402Version: 2,
          ...(isThere(resource) && { resource }),
          accepted,
          payload,
          ...(isThere(extensions) && { extensions }),
        };
  return encodePaymentSignatureHeader(whole as unknown as PaymentPayload);
}

const isThere = (value: unknown): boolean => value !== null && value !== undefined;
