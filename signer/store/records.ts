import type { DatabaseSync } from 'node:sqlite';
import { walletName } from '../address.ts';
import { type BoundPayment, type BoundSlot, checkUse, placesOf, type SlotUse } from '../records.ts';
import { rebuildRecords } from './rebuild-records.ts';

/** Whose signature over what. */
export interface SignatureId {
  /** Of the wallet. */
  address: string;
  digest: Uint8Array;
}

export interface RecordStore {
  /** False while records of the others are missing here: nothing is signed with the key. */
  hasRecords(keyId: string): boolean;
  /**
   * Ends a payment before it was signed: unless this signer has recorded the slot or the payment, the payment is never
   * signed here. Of a payment that spends coins, the slot is its anchor: nothing of it is signed without that one. Durable
   * on return.
   * @returns whether neither was recorded
   */
  endUnsigned(p: { keyId: string; slot: string; transactionId: string }): boolean;
  /** @throws Refusal `slot_taken` when the use is against what is recorded */
  checkUse(use: SlotUse): void;
  /** The same, and records the use; inside a transaction. @throws Refusal `slot_taken` */
  bindUse(use: SlotUse): void;
  /** Records, inside a transaction, that this signer gives its part away; `signature` where it sees the result. */
  noteSignature(p: SignatureId & { keyId: string; signature: Uint8Array | null }): void;
  /**
   * Takes a signature that this signer took part in and has not seen. It may be lost in a crash: it is only there to be
   * given again. Nothing happens when none is missing.
   */
  learnSignature(p: SignatureId & { signature: Uint8Array }): void;
  /** A signature as it was told; whoever gives it on verifies it. */
  findSignature(p: SignatureId): Uint8Array | undefined;
}

export function createRecordStore({ db, now }: { db: DatabaseSync; now: () => Date }): RecordStore {
  rebuildRecords(db);
  const selectHasRecords = db.prepare('select 1 from keys where key_id = ? and has_records = 1');
  const selectSlot = db.prepare(
    'select intent, transaction_id as "transactionId", value_sat as "valueSat" from slots where slot = ?',
  );
  const selectPayment = db.prepare(
    'select slot, intent, valid_before as "validBefore", others from payments where transaction_id = ?',
  );
  const insertSlot = db.prepare(
    `insert into slots (slot, key_id, intent, transaction_id, value_sat, at_ms)
     values (:slot, :keyId, :intent, :transactionId, :valueSat, :atMs) on conflict do nothing`,
  );
  const putPayment = db.prepare(
    `insert into payments (transaction_id, key_id, slot, intent, valid_before, decision_id, at_ms)
     values (:transactionId, :keyId, :slot, :intent, :validBefore, :decisionId, :atMs)
     on conflict (transaction_id) do update
     set slot = excluded.slot, valid_before = excluded.valid_before, decision_id = excluded.decision_id,
         at_ms = excluded.at_ms
     where slot <> excluded.slot`,
  );
  const putSignature = db.prepare(
    `insert into signatures (address, digest, key_id, signature, at_ms)
     values (:address, :digest, :keyId, :signature, :atMs)
     on conflict (address, digest) do update set signature = excluded.signature where signature is null`,
  );
  const learn = db.prepare(
    `update signatures set signature = :signature where address = :address and digest = :digest and signature is null`,
  );
  const selectSignature = db.prepare(
    'select signature from signatures where address = :address and digest = :digest and signature is not null',
  );

  function findPayment(transactionId: string): BoundPayment | undefined {
    const row = selectPayment.get(transactionId) as (Omit<BoundPayment, 'others'> & { others: string }) | undefined;
    return row && { ...row, others: JSON.parse(row.others) };
  }

  function check(use: SlotUse): void {
    const slots = new Map<string, BoundSlot>();
    for (const { slot } of placesOf(use)) {
      const bound = selectSlot.get(slot) as BoundSlot | undefined;
      if (bound) slots.set(slot, bound);
    }
    const payment = findPayment(use.transactionId);
    checkUse(use, { slots, payment, now: now() });
  }

  return {
    hasRecords: (keyId) => selectHasRecords.get(keyId) !== undefined,
    endUnsigned({ keyId, slot, transactionId }) {
      const payment = findPayment(transactionId);
      if (payment) return payment.slot === '' && selectSlot.get(slot) === undefined;
      if (selectSlot.get(slot)) return false;
      const ended = { slot: '', intent: '', validBefore: null, decisionId: '' };
      putPayment.run({ transactionId, keyId, ...ended, atMs: now().getTime() });
      return true;
    },
    checkUse: check,
    bindUse(use) {
      check(use);
      const { keyId, slot, intent, transactionId, decisionId, validBefore } = use;
      const atMs = now().getTime();
      for (const place of placesOf(use)) insertSlot.run({ ...place, keyId, intent, transactionId, atMs });
      if (intent !== '') putPayment.run({ transactionId, keyId, slot, intent, validBefore, decisionId, atMs });
    },
    noteSignature: ({ address, digest, keyId, signature }) =>
      void putSignature.run({ address: walletName(address), digest, keyId, signature, atMs: now().getTime() }),
    learnSignature({ address, digest, signature }) {
      // The one write that need not be on disk when it is answered: a second wait for the disk in every signature.
      db.exec('pragma synchronous = normal');
      try {
        learn.run({ address: walletName(address), digest, signature });
      } finally {
        db.exec('pragma synchronous = full');
      }
    },
    findSignature({ address, digest }) {
      const row = selectSignature.get({ address: walletName(address), digest }) as
        | { signature: Uint8Array }
        | undefined;
      return row?.signature;
    },
  };
}
