import type { DatabaseSync } from 'node:sqlite';

/** What this party signed. `signature` is null where this party released its part but does not see the result. */
export interface SigningLogEntry {
  sessionId: string;
  counterparty: number;
  keyId: string;
  epoch: number;
  path: string;
  address: string;
  transactionId: string;
  decisionId: string;
  receipt: string;
  /** The whole thing that was signed, as JSON. */
  payload: string;
  digest: Uint8Array;
  signature: Uint8Array | null;
}

export interface SigningLog {
  /** Durable on return (WAL, synchronous = FULL), or with the transaction around it. */
  appendSigningLog(entry: SigningLogEntry): void;
}

export function createSigningLog({ db, now }: { db: DatabaseSync; now: () => Date }): SigningLog {
  const insert = db.prepare(`insert into signing_log values (null, :atMs, :sessionId, :counterparty, :keyId, :epoch,
    :path, :address, :transactionId, :decisionId, :receipt, :payload, :digest, :signature)`);
  return { appendSigningLog: (entry) => void insert.run({ ...entry, atMs: now().getTime() }) };
}
