import type { DatabaseSync } from 'node:sqlite';

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
export interface PaymentRecord {
  transactionId: string;
  slot: string;
  intent: string;
  validBefore: number | null;
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
   * Of two slots of one payment the newer counts; one that was ended stays ended.
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
  const paymentColumns = `${transactionId}, slot, intent, valid_before as "validBefore", decision_id as "decisionId", ${atMs}`;

  const findSlot = db.prepare(`select ${slotColumns} from slots where slot = ?`);
  const insertSlot = db.prepare(
    `insert into slots (slot, key_id, intent, transaction_id, value_sat, at_ms)
     values (:slot, :keyId, :intent, :transactionId, :valueSat, :atMs)
     on conflict (slot) do update
     set intent = excluded.intent, transaction_id = excluded.transaction_id, value_sat = excluded.value_sat`,
  );
  const findPayment = db.prepare(`select ${paymentColumns} from payments where transaction_id = ?`);
  const putPayment = db.prepare(
    `insert into payments (transaction_id, key_id, slot, intent, valid_before, decision_id, at_ms)
     values (:transactionId, :keyId, :slot, :intent, :validBefore, :decisionId, :atMs)
     on conflict (transaction_id) do update
     set slot = excluded.slot, valid_before = excluded.valid_before, decision_id = excluded.decision_id,
         at_ms = excluded.at_ms`,
  );
  const putSignature = db.prepare(
    `insert into signatures (address, digest, key_id, signature, at_ms)
     values (:address, unhex(:digest), :keyId, unhex(:signature), :atMs)
     on conflict (address, digest) do update set signature = excluded.signature where signature is null`,
  );
  const complete = db.prepare('update keys set has_records = 1 where key_id = ?');

  return {
    slotsPage: page('slots', slotColumns),
    paymentsPage: page('payments', paymentColumns),
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
        const known = findPayment.get(row.transactionId) as PaymentRecord | undefined;
        if (!known) putPayment.run({ ...row, keyId });
        else if (known.slot === '') continue;
        else if (row.slot === '') putPayment.run({ ...row, keyId });
        else if (known.intent !== row.intent) {
          putPayment.run({ ...known, keyId, slot: '' });
          conflicts.push(row.transactionId);
        } else if (known.slot !== row.slot && row.atMs > known.atMs) putPayment.run({ ...row, keyId });
      }
      return conflicts;
    },
    mergeSignatures({ keyId, rows }) {
      for (const row of rows) putSignature.run({ ...row, keyId, signature: row.signature || null });
    },
    markRecordsComplete: (keyId) => void complete.run(keyId),
  };
}

const isSameUse = (a: SlotRecord, b: SlotRecord) => a.intent === b.intent && a.transactionId === b.transactionId;
