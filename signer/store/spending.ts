import type { DatabaseSync } from 'node:sqlite';
import type { Level } from '../rolling-day.ts';

/** A level that was signed away, in one asset of one wallet, and the signers that know of it. */
export interface Spending extends Level {
  keyId: string;
  /** In lower case. */
  wallet: string;
  asset: string;
  /** Bits of parties: 1, 2, 4. */
  knownTo: number;
}

export interface SpendingStore {
  /** Adds a level; of one that is there only who knows of it changes. */
  putSpending(spending: Spending): void;
  /** Every level of the slots that rose after `sinceMs`, and of `slot`. */
  spendingSince(p: { wallet: string; asset: string; slot: string; sinceMs: number }): Spending[];
  /** Every level of some slots of a key that rose after `sinceMs`: the next ones after a slot, in their order. */
  spendingOfKey(p: { keyId: string; afterSlot: string; sinceMs: number; limit: number }): Spending[];
}

interface SpendingRow {
  keyId: string;
  slot: string;
  wallet: string;
  asset: string;
  amount_minor: string;
  knownTo: number;
  atMs: number;
}

const columns = `key_id as "keyId", slot, wallet, asset, amount_minor, known_to as "knownTo", at_ms as "atMs"`;
const read = ({ amount_minor, ...row }: SpendingRow): Spending => ({ ...row, amountMinor: BigInt(amount_minor) });

export function createSpendingStore({ db }: { db: DatabaseSync }): SpendingStore {
  const put = db.prepare(
    `insert into spending (key_id, slot, wallet, asset, amount_minor, known_to, at_ms)
     values (:keyId, :slot, :wallet, :asset, :amount, :knownTo, :atMs)
     on conflict do update set known_to = known_to | :knownTo`,
  );
  const since = db.prepare(
    `select ${columns} from spending where asset = :asset and slot in
       (select slot from spending where wallet = :wallet and asset = :asset and at_ms > :sinceMs union all select :slot)`,
  );
  const ofKey = db.prepare(
    `select ${columns} from spending where key_id = :keyId and slot in
       (select distinct slot from spending where key_id = :keyId and slot > :afterSlot and at_ms > :sinceMs
        order by slot limit :limit)
     order by slot`,
  );
  return {
    putSpending: ({ amountMinor, ...row }) => void put.run({ ...row, amount: String(amountMinor) }),
    spendingSince: (p) => (since.all(p) as unknown as SpendingRow[]).map(read),
    spendingOfKey: (p) => (ofKey.all(p) as unknown as SpendingRow[]).map(read),
  };
}
