import type { DatabaseSync } from 'node:sqlite';

/** Nobody signs or refreshes with a party that cheated in a signed message, until an operator lifts it. */
export interface Ban {
  keyId: string;
  party: number;
  /** What the engine found. */
  reason: string;
  atMs: number;
}

export interface BanStore {
  ban(p: { keyId: string; party: number; reason: string }): void;
  isBanned(p: { keyId: string; party: number }): boolean;
  /** @returns undefined where the party is not banned */
  banOf(p: { keyId: string; party: number }): Ban | undefined;
  liftBan(p: { keyId: string; party: number }): void;
  listBans(): Ban[];
}

export function createBanStore({ db, now }: { db: DatabaseSync; now: () => Date }): BanStore {
  const insert = db.prepare('insert into bans values (:keyId, :party, :reason, :atMs) on conflict do nothing');
  const select = db.prepare('select 1 from bans where key_id = :keyId and party = :party');
  const one = db.prepare(
    'select key_id as "keyId", party, reason, created_at_ms as "atMs" from bans where key_id = :keyId and party = :party',
  );
  const lift = db.prepare('delete from bans where key_id = :keyId and party = :party');
  const list = db.prepare(
    'select key_id as "keyId", party, reason, created_at_ms as "atMs" from bans order by created_at_ms, key_id, party',
  );
  return {
    ban: (ban) => void insert.run({ ...ban, atMs: now().getTime() }),
    isBanned: ({ keyId, party }) => select.get({ keyId, party }) !== undefined,
    banOf: ({ keyId, party }) => one.get({ keyId, party }) as unknown as Ban | undefined,
    liftBan: ({ keyId, party }) => void lift.run({ keyId, party }),
    listBans: () => list.all() as unknown as Ban[],
  };
}
