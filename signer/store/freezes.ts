import type { DatabaseSync } from 'node:sqlite';

/** The newest word of the policy step about what is frozen, as it was signed. */
export interface StoredFreezeOrder {
  version: number;
  document: string;
}

/** The operator's own freeze of this signer. */
export interface OperatorFreeze {
  reason: string;
  atMs: number;
}

export interface FreezeStore {
  /** Undefined: nobody has ever said that anything is frozen. */
  getFreezeOrder(): StoredFreezeOrder | undefined;
  /** Puts an order in place of an older one; one that is not newer changes nothing. Durable on return. */
  putFreezeOrder(order: StoredFreezeOrder): void;
  /** Undefined: the operator has not frozen this signer. */
  getOperatorFreeze(): OperatorFreeze | undefined;
  /** @param p.reason null: not frozen any more. Durable on return. */
  putOperatorFreeze(p: { reason: string | null }): void;
}

export function createFreezeStore({ db, now }: { db: DatabaseSync; now: () => Date }): FreezeStore {
  const selectOrder = db.prepare('select version, document from freeze_order');
  const upsertOrder = db.prepare(
    `insert into freeze_order (only_one, version, document, at_ms) values (1, :version, :document, :atMs)
     on conflict do update set version = :version, document = :document, at_ms = :atMs where version < :version`,
  );
  const selectOperator = db.prepare('select reason, at_ms as "atMs" from operator_freeze where reason is not null');
  const upsertOperator = db.prepare(
    `insert into operator_freeze (only_one, reason, at_ms) values (1, :reason, :atMs)
     on conflict do update set reason = :reason, at_ms = :atMs`,
  );
  const atMs = () => now().getTime();
  return {
    getFreezeOrder: () => selectOrder.get() as unknown as StoredFreezeOrder | undefined,
    putFreezeOrder: (order) => void upsertOrder.run({ ...order, atMs: atMs() }),
    getOperatorFreeze: () => selectOperator.get() as unknown as OperatorFreeze | undefined,
    putOperatorFreeze: ({ reason }) => void upsertOperator.run({ reason, atMs: atMs() }),
  };
}
