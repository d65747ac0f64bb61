import { familyOf, familyOfPayload } from '../shared/chain/families.ts';
import type { Signed } from '../shared/chain/family.ts';
import type {
  AuthorizationPayload,
  BitcoinTransaction,
  PaymentIntent,
  PolicyReceipt,
  TransactionPayload,
} from '../shared/domain/receipt.ts';
import type { KeyRecord, KnownPayment, SignerClient } from '../signer/client.ts';
import { withHeartbeat } from './with-heartbeat.ts';

type KnownRecord = KnownPayment['records'][number];

/** Something that the signers signed for a payment, or began to; JSON-safe. */
export interface SignedThing {
  readonly atMs: number;
  readonly decisionId: string;
  readonly intent: PaymentIntent;
  /** Slots that the payment had given up by then. */
  readonly replaces: readonly string[];
  readonly payload: TransactionPayload | AuthorizationPayload;
  /** Whether it pays, or only uses its place up. */
  readonly purpose: 'payment' | 'noop';
  /** Ready to be sent; null where it was never signed whole, and of an authorisation. */
  readonly signed: Signed | null;
  /** Of an authorisation. */
  readonly signature: `0x${string}` | null;
}

/** A payment as the signers know it. */
export interface SignedPayment {
  readonly id: string;
  readonly accountId: string;
  readonly agentId: string;
  readonly wallet: PolicyReceipt['wallet'];
  /** Oldest first, at least one. */
  readonly things: readonly SignedThing[];
}

/** Where a list goes on: behind this payment. */
export interface SignedCursor {
  readonly atMs: number;
  readonly id: string;
}

/** A payment that was signed for, first and last at these times. */
export interface ListedPayment extends SignedCursor {
  readonly lastAtMs: number;
}

/**
 * The payments that the signers signed for since an instant, in the order of their first signature since then.
 * @throws SignerUnavailable unless all three tell: what two have signed, the third one may not know
 */
export function createListSigned({ signer }: { signer: SignerClient }) {
  return async function listSigned({
    sinceMs,
    after,
    limit,
  }: {
    sinceMs: number;
    after: SignedCursor | null;
    limit: number;
  }): Promise<{ payments: ListedPayment[]; next: SignedCursor | null }> {
    const listed = await withHeartbeat(() => signer.listPayments({ sinceMs }));
    const isBehind = ({ atMs, id }: SignedCursor) =>
      !after || atMs > after.atMs || (atMs === after.atMs && id > after.id);
    const left = listed
      .map(({ transactionId: id, firstAtMs: atMs, lastAtMs }) => ({ id, atMs, lastAtMs }))
      .filter(isBehind)
      .sort((a, b) => a.atMs - b.atMs || (a.id < b.id ? -1 : 1));
    const page = left.slice(0, limit);
    const { id, atMs } = page.at(-1) ?? { id: '', atMs: 0 };
    return { payments: page, next: left.length > limit ? { id, atMs } : null };
  };
}

/**
 * Everything that was ever signed for some payments, and the public halves of their keys.
 * @throws SignerUnavailable unless all three tell
 */
export function createReadSigned({ signer }: { signer: SignerClient }) {
  return async function readSigned(ids: readonly string[]): Promise<{ payments: SignedPayment[]; keys: KeyRecord[] }> {
    const known = await withHeartbeat(() => signer.readPayments({ transactionIds: ids }));
    const payments = known.filter(({ records }) => records.length > 0).map(readPayment);
    const keyIds = [...new Set(payments.map(({ wallet }) => wallet.key_id))];
    return { payments, keys: keyIds.length === 0 ? [] : await signer.readKeys({ keyIds }) };
  };
}

function readPayment({ transactionId, records }: KnownPayment): SignedPayment {
  const { account_id, agent_id, wallet } = records[0]!.receipt;
  const things = [...wholes(records).values()].map(({ payload, records: parts }) => readThing(payload, parts));
  return { id: transactionId, accountId: account_id, agentId: agent_id, wallet, things };
}

interface Whole {
  readonly payload: SignedThing['payload'];
  /** One for each signature that it needs, in order; of Bitcoin, one an input. */
  readonly records: (KnownRecord | undefined)[];
}

/** What was signed as one: all inputs of a Bitcoin transaction, each of which has a record of its own. */
function wholes(records: readonly KnownRecord[]): Map<string, Whole> {
  const found = new Map<string, Whole>();
  for (const record of records) {
    const { payload } = record;
    if (payload.kind !== 'bitcoin-input') {
      found.set(JSON.stringify(payload), { payload, records: [record] });
      continue;
    }
    const key = JSON.stringify(payload.transaction);
    const whole = found.get(key) ?? wholeOf(payload.transaction);
    whole.records[payload.input] = record;
    found.set(key, whole);
  }
  return found;
}

function wholeOf(transaction: BitcoinTransaction): Whole {
  return {
    payload: { kind: 'bitcoin-transaction', transaction },
    records: transaction.inputs.map(() => undefined),
  };
}

function readThing(payload: SignedThing['payload'], parts: Whole['records']): SignedThing {
  const { receipt, atMs } = parts.find((part) => part !== undefined)!;
  const { intent, decision_id: decisionId, replaces = [] } = receipt;
  const signatures = parts.map((part) => part?.signature ?? null);
  const isWhole = signatures.every((signature) => signature !== null);
  const common = { atMs, decisionId, intent, replaces };
  if (payload.kind === 'transfer-authorization')
    return { ...common, payload, purpose: 'payment', signed: null, signature: signatures[0] ?? null };
  const { address: from } = receipt.wallet;
  const signed = isWhole ? familyOfPayload(payload).assemble({ payload, signatures, from }) : null;
  // By its bytes where there are any, as for everything that is sent; else by what was allowed.
  const purpose = signed
    ? familyOf(intent.chain).purposeOf(signed.raw, { from, chain: intent.chain })
    : intent.amount_minor === '0'
      ? 'noop'
      : 'payment';
  return { ...common, payload, purpose, signed, signature: null };
}
