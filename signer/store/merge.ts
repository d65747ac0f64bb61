import type { DatabaseSync } from 'node:sqlite';
import type { BoundPayment, SignedAt } from '../records.ts';

/** Of whatever two signers recorded differently. No intent and no value is written like this, so nothing is signed there. */
const CONFLICT = 'conflict';

/** As two signers tell each other; `atMs` by the clock of whoever recorded it. */
export interface SlotRecord {
  slot: string;
  intent: string;
  transactionId: string;
  /** Satoshis of a coin; null for other slots. */
  valueSat: string | null;
  atMs: number;
}
export interface PaymentRecord extends BoundPayment {
  transactionId: string;
  decisionId: string;
  atMs: number;
}
export interface SignatureRecord {
  address: string;
  /** Hex. */
  digest: string;
  signature: string | null;
  atMs: number;
}

/** One page of records of one kind. `after` counts on from the page before; null: there are no more. */
export interface RecordPage<T> {
  rows: T[];
  after: number | null;
}
type PageRequest = { keyId: string; after: number; limit: number };

export interface MergeStore {
  slotsPage(p: PageRequest): RecordPage<SlotRecord>;
  paymentsPage(p: PageRequest): RecordPage<PaymentRecord>;
  signaturesPage(p: PageRequest): RecordPage<SignatureRecord>;
  /** Takes over what is not known. @returns slots that were used for different things: nothing is signed there any more */
  mergeSlots(p: { keyId: string; rows: readonly SlotRecord[] }): string[];
  /**
   * Of two slots of one payment the newer counts, and the other one is remembered: it may be the only one of which there
   * is a signature. A payment that was ended stays ended.
   * @returns payments of different amounts or recipients: they are not signed any more
   */
  mergePayments(p: { keyId: string; rows: readonly PaymentRecord[] }): string[];
  mergeSignatures(p: { keyId: string; rows: readonly SignatureRecord[] }): void;
  /** From now on the key may be signed with here. */
  markRecordsComplete(keyId: string): void;
}

export function createMergeStore({ db }: { db: DatabaseSync }): MergeStore {
  const page = <T extends object>(table: string, columns: string) => {
    const select = db.prepare(
      `select rowid as "rowId", ${columns} from ${table} where key_id = :keyId and rowid > :after
       order by rowid limit :limit`,
    );
    return (p: PageRequest): RecordPage<T> => {
      const found = select.all({ ...p }) as (T & { rowId: number })[];
      const after = found.length < p.limit ? null : found.at(-1)!.rowId;
      return { rows: found.map(({ rowId: _, ...row }) => row as unknown as T), after };
    };
  };
  const transactionId = 'transaction_id as "transactionId"';
  const atMs = 'at_ms as "atMs"';
  const slotColumns = `slot, intent, ${transactionId}, value_sat as "valueSat", ${atMs}`;
  const paymentColumns = `${transactionId}, slot, intent, valid_before as "validBefore", decision_id as "decisionId", others, ${atMs}`;

  const findSlot = db.prepare(`select ${slotColumns} from slots where slot = ?`);
  const insertSlot = db.prepare(
    `insert into slots (slot, key_id, intent, transaction_id, value_sat, at_ms)
     values (:slot, :keyId, :intent, :transactionId, :valueSat, :atMs)
     on conflict (slot) do update
     set intent = excluded.intent, transaction_id = excluded.transaction_id, value_sat = excluded.value_sat`,
  );
  const findPayment = db.prepare(`select ${paymentColumns} from payments where transaction_id = ?`);
  const putPayment = db.prepare(
    `insert into payments (transaction_id, key_id, slot, intent, valid_before, decision_id, others, at_ms)
     values (:transactionId, :keyId, :slot, :intent, :validBefore, :decisionId, :others, :atMs)
     on conflict (transaction_id) do update
     set slot = excluded.slot, valid_before = excluded.valid_before, decision_id = excluded.decision_id,
         others = excluded.others, at_ms = excluded.at_ms`,
  );
  const put = (keyId: string, { others, ...row }: PaymentRecord) =>
    void putPayment.run({ ...row, keyId, others: JSON.stringify(others) });
  const paymentsPage = page<PaymentRow>('payments', paymentColumns);
  const putSignature = db.prepare(
    `insert into signatures (address, digest, key_id, signature, at_ms)
     values (:address, unhex(:digest), :keyId, unhex(:signature), :atMs)
     on conflict (address, digest) do update set signature = excluded.signature where signature is null`,
  );
  const complete = db.prepare('update keys set has_records = 1 where key_id = ?');

  return {
    slotsPage: page('slots', slotColumns),
    paymentsPage(p) {
      const { rows, after } = paymentsPage(p);
      return { rows: rows.map(readPayment), after };
    },
    signaturesPage: page('signatures', `address, hex(digest) as digest, hex(signature) as signature, ${atMs}`),
    mergeSlots({ keyId, rows }) {
      const conflicts: string[] = [];
      for (const row of rows) {
        const known = findSlot.get(row.slot) as SlotRecord | undefined;
        if (known && known.valueSat !== row.valueSat) {
          insertSlot.run({ ...known, keyId, intent: CONFLICT, valueSat: CONFLICT });
          conflicts.push(row.slot);
        }
        // What pays nobody stands beside a payment: the payment is what has to be known.
        else if (!known || (known.intent === '' && row.intent !== '')) insertSlot.run({ ...row, keyId });
        else if (row.intent !== '' && !isSameUse(known, row)) {
          insertSlot.run({ ...known, keyId, intent: CONFLICT });
          conflicts.push(row.slot);
        }
      }
      return conflicts;
    },
    mergePayments({ keyId, rows }) {
      const conflicts: string[] = [];
      for (const row of rows) {
        const found = findPayment.get(row.transactionId) as PaymentRow | undefined;
        const known = found && readPayment(found);
        if (!known) put(keyId, row);
        else if (known.slot === '') continue;
        else if (row.slot === '') put(keyId, row);
        else if (known.intent !== row.intent) {
          put(keyId, { ...known, slot: '' });
          conflicts.push(row.transactionId);
        } else put(keyId, mergePayment(known, row));
      }
      return conflicts;
    },
    mergeSignatures({ keyId, rows }) {
      for (const row of rows) putSignature.run({ ...row, keyId, signature: row.signature || null });
    },
    markRecordsComplete: (keyId) => void complete.run(keyId),
  };
}

type PaymentRow = Omit<PaymentRecord, 'others'> & { others: string };
const readPayment = ({ others, ...row }: PaymentRow): PaymentRecord => ({ ...row, others: JSON.parse(others) });

function mergePayment(known: PaymentRecord, told: PaymentRecord): PaymentRecord {
  const newer = known.slot !== told.slot && told.atMs > known.atMs ? told : known;
  const all = [known, told].flatMap(({ slot, validBefore, others }): SignedAt[] => [{ slot, validBefore }, ...others]);
  const others = new Map(all.map((each) => [each.slot, each]));
  others.delete(newer.slot);
  return { ...newer, others: [...others.values()] };
}

const isSameUse = (a: SlotRecord, b: SlotRecord) => a.intent === b.intent && a.transactionId === b.transactionId;
