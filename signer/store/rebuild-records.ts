import type { DatabaseSync } from 'node:sqlite';
import { walletName } from '../address.ts';
import { placesOf } from '../records.ts';
import { useOf } from '../slot.ts';
import { transaction } from './database.ts';

interface LogRow {
  atMs: number;
  keyId: string;
  address: string;
  transactionId: string;
  decisionId: string;
  payload: string;
  digest: Uint8Array;
  signature: Uint8Array | null;
}

/**
 * Makes the records of a store that signed before it kept any, once, from its log. Where that held signers to less, the
 * newest counts: a nonce that was given back went to the payment that was signed last.
 */
export function rebuildRecords(db: DatabaseSync): void {
  const { isDue } = db
    .prepare('select not exists (select 1 from slots) and exists (select 1 from signing_log) as "isDue"')
    .get() as { isDue: number };
  if (!isDue) return;
  const log = db.prepare(
    `select at_ms as "atMs", key_id as "keyId", address, transaction_id as "transactionId", decision_id as "decisionId",
       payload, digest, signature from signing_log order by seq`,
  );
  const putSlot = db.prepare(
    `insert into slots (slot, key_id, intent, transaction_id, value_sat, at_ms)
     values (:slot, :keyId, :intent, :transactionId, :valueSat, :atMs)
     on conflict (slot) do update set intent = excluded.intent, transaction_id = excluded.transaction_id
     where excluded.intent <> ''`,
  );
  const putPayment = db.prepare(
    `insert or replace into payments (transaction_id, key_id, slot, intent, valid_before, decision_id, at_ms)
     values (:transactionId, :keyId, :slot, :intent, :validBefore, :decisionId, :atMs)`,
  );
  const putSignature = db.prepare(
    `insert into signatures (address, digest, key_id, signature, at_ms)
     values (:address, :digest, :keyId, :signature, :atMs)
     on conflict (address, digest) do update set signature = excluded.signature where signature is null`,
  );
  transaction(db, () => {
    for (const row of log.iterate() as Iterable<LogRow>) {
      const { atMs, keyId, address, digest, signature } = row;
      const use = useOf({ ...row, payload: JSON.parse(row.payload), replaces: [] });
      const { slot, intent, transactionId, decisionId, validBefore } = use;
      for (const place of placesOf(use)) putSlot.run({ ...place, keyId, intent, transactionId, atMs });
      if (intent !== '') putPayment.run({ transactionId, keyId, slot, intent, validBefore, decisionId, atMs });
      putSignature.run({ address: walletName(address), digest, keyId, signature, atMs });
    }
  });
}
