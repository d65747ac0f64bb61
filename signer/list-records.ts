import { decodeJwt } from 'jose';
import { bytesToHex, type Hex } from 'viem';
import { z } from 'zod';
import type { PolicyReceipt, SignPayload } from '../shared/domain/receipt.ts';
import type { SignerContext } from './context.ts';
import type { LoggedPayment } from './store/signing-log.ts';

/** Rows of the log in one answer. */
const PAGE_ROWS = 2_000;
/** Payments that are asked for at once. */
const PAYMENTS_MAX = 20;
/** Keys that are asked for at once. */
const KEYS_MAX = 100;
/** Characters of an answer after which no further payment is put into it: far below the longest body. */
const ANSWER_CHARS = 400_000;

export const listPaymentsSchema = z.strictObject({
  /** Place in the log that everything told is before; absent: from the newest on. */
  before: z.int().min(1).optional(),
});
export const readPaymentsSchema = z.strictObject({
  transactionIds: z.array(z.string().min(1).max(128)).min(1).max(PAYMENTS_MAX),
});

export const readKeysSchema = z.strictObject({
  keyIds: z.array(z.string().min(1).max(128)).min(1).max(KEYS_MAX),
});

/** What addresses of a key's wallets are derived from. */
export interface KeyRecord {
  keyId: string;
  /** Uncompressed, 65 bytes. */
  publicKey: Hex;
  /** 32 bytes. */
  chainCode: Hex;
  ownerKey: string | null;
}

/** A page of the log, newest first; `next`: what the next page is before, null with the last one. */
export interface PaymentsPage {
  payments: LoggedPayment[];
  next: number | null;
}

/** What was signed once, and what allowed it. Neither a share nor anything by which more could be signed. */
export interface SignedRecord {
  atMs: number;
  /** What the receipt said, without its own signature. */
  receipt: PolicyReceipt;
  payload: SignPayload;
  digest: Hex;
  /** r | s | recovery id, 65 bytes; null where this signer gave its part away and never saw what came out. */
  signature: Hex | null;
}

/** `left`: payments for which the answer had no room; ask for them again. */
export interface PaymentRecords {
  payments: { transactionId: string; records: SignedRecord[] }[];
  left: string[];
}

/** Tells which payments this signer has signed for, newest first. Reads only. */
export async function listPayments(
  context: SignerContext,
  { body: { before } }: { body: z.infer<typeof listPaymentsSchema> },
): Promise<PaymentsPage> {
  const from = { before: before ?? Number.MAX_SAFE_INTEGER, limit: PAGE_ROWS };
  const payments = context.store.loggedPayments(from);
  return { payments, next: payments.length === PAGE_ROWS ? payments.at(-1)!.seq : null };
}

/** Tells everything that this signer has signed for some payments, oldest first. Reads only. */
export async function readPayments(
  context: SignerContext,
  { body: { transactionIds } }: { body: z.infer<typeof readPaymentsSchema> },
): Promise<PaymentRecords> {
  const payments: PaymentRecords['payments'] = [];
  let chars = 0;
  for (const [index, transactionId] of transactionIds.entries()) {
    const records = context.store.loggedSignatures({ transactionId }).map(
      ({ atMs, receipt, payload, digest, signature }): SignedRecord => ({
        atMs,
        receipt: decodeJwt<PolicyReceipt>(receipt),
        payload: JSON.parse(payload),
        digest: bytesToHex(digest),
        signature: signature && bytesToHex(signature),
      }),
    );
    chars += JSON.stringify(records).length;
    if (chars > ANSWER_CHARS && payments.length > 0) return { payments, left: transactionIds.slice(index) };
    payments.push({ transactionId, records });
  }
  return { payments, left: [] };
}

/** Tells the public halves of keys that are in use here; of others nothing. Reads only. */
export async function readKeys(
  context: SignerContext,
  { body: { keyIds } }: { body: z.infer<typeof readKeysSchema> },
): Promise<{ keys: KeyRecord[] }> {
  const keys = keyIds.flatMap((keyId): KeyRecord[] => {
    const known = context.store.publicHalves(keyId);
    if (!known) return [];
    const { publicKey, chainCode, ownerKey } = known;
    return [{ keyId, publicKey: bytesToHex(publicKey), chainCode: bytesToHex(chainCode), ownerKey }];
  });
  return { keys };
}
