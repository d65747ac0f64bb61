import type { DatabaseSync } from 'node:sqlite';

/** A document as its owner signed it, and what of it the store looks for. */
export interface StoredLimits {
  keyId: string;
  /** Address in lower case, or `*`. */
  wallet: string;
  version: number;
  document: string;
}

export interface LimitStore {
  /** Null: the key has none, so nobody can set limits. Undefined: there is no such key here. */
  ownerKeyOf(keyId: string): string | null | undefined;
  /** Gives a key that has none its owner's. @returns whether it had none */
  registerOwnerKey(p: { keyId: string; ownerKey: string }): boolean;
  /** Puts another owner's key in place of the one before, with the document that says so. */
  replaceOwnerKey(p: { keyId: string; ownerKey: string; version: number; document: string }): void;
  /** The documents that replaced the owner's key, oldest first. */
  ownerKeyChanges(keyId: string): { version: number; document: string }[];
  /** Puts limits in place of those before. */
  putLimits(limits: StoredLimits): void;
  /** The documents of one wallet, or of `*`. */
  getLimits(p: { keyId: string; wallet: string }): StoredLimits | undefined;
  /** Those of one key, or of all. */
  listLimits(keyId?: string): StoredLimits[];
}

export function createLimitStore({ db, now }: { db: DatabaseSync; now: () => Date }): LimitStore {
  const selectOwner = db.prepare('select owner_key as "ownerKey" from keys where key_id = ?');
  const register = db.prepare('update keys set owner_key = :ownerKey where key_id = :keyId and owner_key is null');
  const replace = db.prepare('update keys set owner_key = :ownerKey where key_id = :keyId');
  const insertChange = db.prepare('insert into owner_key_changes values (:keyId, :version, :document, :atMs)');
  const selectChanges = db.prepare('select version, document from owner_key_changes where key_id = ? order by version');
  const upsert = db.prepare(
    `insert into limits values (:keyId, :wallet, :version, :document, :atMs)
     on conflict do update set version = :version, document = :document, at_ms = :atMs`,
  );
  const columns = 'key_id as "keyId", wallet, version, document';
  const select = db.prepare(`select ${columns} from limits where key_id = :keyId and wallet = :wallet`);
  const list = db.prepare(
    `select ${columns} from limits where :keyId is null or key_id = :keyId order by key_id, wallet`,
  );
  const atMs = () => now().getTime();
  return {
    ownerKeyOf: (keyId) => (selectOwner.get(keyId) as { ownerKey: string | null } | undefined)?.ownerKey,
    registerOwnerKey: ({ keyId, ownerKey }) => register.run({ keyId, ownerKey }).changes === 1,
    replaceOwnerKey({ keyId, ownerKey, version, document }) {
      insertChange.run({ keyId, version, document, atMs: atMs() });
      replace.run({ keyId, ownerKey });
    },
    ownerKeyChanges: (keyId) => selectChanges.all(keyId) as { version: number; document: string }[],
    putLimits: (limits) => void upsert.run({ ...limits, atMs: atMs() }),
    getLimits: ({ keyId, wallet }) => select.get({ keyId, wallet }) as unknown as StoredLimits | undefined,
    listLimits: (keyId) => list.all({ keyId: keyId ?? null }) as unknown as StoredLimits[],
  };
}
