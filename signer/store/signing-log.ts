import type { DatabaseSync } from 'node:sqlite';
import { walletName } from '../address.ts';

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

/** A row of the log, as it is read back. `signature`: of this digest and wallet, where this party knows one. */
export interface LoggedSignature extends Omit<SigningLogEntry, 'sessionId' | 'counterparty' | 'epoch'> {
  atMs: number;
}

/** Where the log names a payment. */
export interface LoggedPayment {
  /** Place in the log. */
  seq: number;
  transactionId: string;
  atMs: number;
}

export interface SigningLog {
  /** Durable on return (WAL, synchronous = FULL), or with the transaction around it. */
  appendSigningLog(entry: SigningLogEntry): void;
  /** Rows in the order of the log, newest first. @param p.before place in the log that all of them are before */
  loggedPayments(p: { before: number; limit: number }): LoggedPayment[];
  /** All rows of one payment, oldest first. */
  loggedSignatures(p: { transactionId: string }): LoggedSignature[];
}

export function createSigningLog({ db, now }: { db: DatabaseSync; now: () => Date }): SigningLog {
  const insert = db.prepare(`insert into signing_log values (null, :atMs, :sessionId, :counterparty, :keyId, :epoch,
    :path, :address, :transactionId, :decisionId, :receipt, :payload, :digest, :signature)`);
  const selectPayments = db.prepare(
    `select seq, transaction_id as "transactionId", at_ms as "atMs" from signing_log
     where seq < :before order by seq desc limit :limit`,
  );
  const selectSignatures = db.prepare(
    `select at_ms as "atMs", key_id as "keyId", path, address, transaction_id as "transactionId",
            decision_id as "decisionId", receipt, payload, digest, signature
     from signing_log where transaction_id = ? order by seq`,
  );
  const selectKnown = db.prepare('select signature from signatures where address = ? and digest = ?');
  const knownSignature = ({ address, digest, signature }: LoggedSignature): Uint8Array | null => {
    if (signature) return signature;
    const row = selectKnown.get(walletName(address), digest) as { signature: Uint8Array | null } | undefined;
    return row?.signature ?? null;
  };
  return {
    appendSigningLog: (entry) => void insert.run({ ...entry, atMs: now().getTime() }),
    loggedPayments: (p) => selectPayments.all(p) as unknown as LoggedPayment[],
    loggedSignatures: ({ transactionId }) =>
      (selectSignatures.all(transactionId) as unknown as LoggedSignature[]).map((row) => ({
        ...row,
        signature: knownSignature(row),
      })),
  };
}
