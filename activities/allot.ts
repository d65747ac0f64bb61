import type { PreparedTransfer } from '../shared/chain/adapter.ts';
import { buildTransfer } from '../shared/chain/evm/build-transfer.ts';
import { lockWallet, type WalletRow } from '../shared/db/agents.ts';
import { findAttempts } from '../shared/db/attempts.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { countOpenSlots, findSlot, insertSlot, nextNonce, releaseSlot, type SlotRow } from '../shared/db/slots.ts';
import {
  failTransaction,
  markSigning,
  markWaiting,
  storeDenial,
  type TransactionRow,
  takeLongestWaiting,
} from '../shared/db/transactions.ts';
import type { PaymentIntent, SignPayload } from '../shared/domain/receipt.ts';
import { signReceipt } from '../shared/receipt.ts';
import { denialFailure, inactiveFailure, judge, lockAgentAndTransaction } from './evaluate-policy.ts';
import { impossible, notFound } from './failures.ts';

/** What the signing step needs, complete: it has no database. */
export interface Allotment {
  readonly keyId: string;
  readonly path: string;
  readonly address: string;
  readonly payload: SignPayload;
  readonly receipt: string;
}

export type AllotResult =
  | { readonly outcome: 'allotted'; readonly allotment: Allotment }
  /** As many payments of the wallet are in flight as may be: wait for `slotFree`. */
  | { readonly outcome: 'wait' }
  /** `wake`: the payment that has waited longest for the nonce that was given back. */
  | { readonly outcome: 'denied'; readonly wake?: string }
  | { readonly outcome: 'ended' }
  /** Signed before and stored: nothing is left to sign. */
  | { readonly outcome: 'signed' };

/** A receipt is good for as long as signing may reasonably take, and no longer. */
const receiptLifetimeSeconds = 600;

export interface AllotDependencies {
  readonly pool: Pool;
  readonly clock: () => Date;
  /** Ed25519 private key of the policy step. */
  readonly policyKey: Parameters<typeof signReceipt>[0];
  /** Payments with a nonce at most, for each wallet and chain. */
  readonly maxInFlight: number;
}

/**
 * Second evaluation, nonce and what is to be signed, in one database transaction; then the policy receipt for it.
 * A repeat before anything was sent judges again and gives the same nonce and payload with a fresh receipt.
 * @param prepared what the chain said; absent when a payload was made before
 */
export function createAllot({ pool, clock, policyKey, maxInFlight }: AllotDependencies) {
  return async function allot(transactionId: string, prepared?: PreparedTransfer): Promise<AllotResult> {
    const given = await inTransaction(pool, async (db) => {
      const { agent, row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status !== 'pending') return { outcome: 'ended' } as const;
      if ((await findAttempts(db, { transactionId })).length > 0) return { outcome: 'signed' } as const;
      const decision = await judge(db, row, clock());
      if (agent.status !== 'active' || decision.outcome === 'deny') {
        await releaseSlot(db, { transactionId });
        if (decision.outcome === 'deny') await storeDenial(db, { id: row.id, decision });
        const failure = agent.status === 'active' ? denialFailure(decision) : inactiveFailure(row);
        await failTransaction(db, { id: row.id, ...failure });
        const wake = await takeLongestWaiting(db, { walletId: row.wallet_id, chain: row.chain });
        return wake === undefined ? ({ outcome: 'denied' } as const) : ({ outcome: 'denied', wake } as const);
      }
      const wallet = await lockWallet(db, { id: row.wallet_id });
      if (!wallet) throw notFound(`Wallet ${row.wallet_id}`);
      const slot = (await findSlot(db, { transactionId })) ?? (await takeSlot(db, { row, prepared, maxInFlight }));
      if (!slot) return { outcome: 'wait' } as const;
      return { outcome: 'allotted', row, wallet, payload: slot.payload } as const;
    });
    if (given.outcome !== 'allotted') return given;
    const { row, wallet, payload } = given;
    const receipt = await issueReceipt({ policyKey, row, wallet, payload, now: clock() });
    const allotment = { keyId: wallet.account_key_id, path: wallet.path, address: wallet.address, payload, receipt };
    return { outcome: 'allotted', allotment };
  };
}

async function takeSlot(
  db: Queryable,
  { row, prepared, maxInFlight }: { row: TransactionRow; prepared: PreparedTransfer | undefined; maxInFlight: number },
): Promise<Pick<SlotRow, 'payload'> | undefined> {
  if (!prepared) throw impossible(`Transaction ${row.id} is to be allotted without having been prepared.`);
  const place = { walletId: row.wallet_id, chain: row.chain };
  if ((await countOpenSlots(db, place)) >= maxInFlight) {
    await markWaiting(db, { id: row.id });
    return undefined;
  }
  const nonce = await nextNonce(db, { ...place, minedCount: prepared.minedCount });
  const transaction = buildTransfer({ intent: intentOf(row, prepared.maxFeeMinor), nonce, prepared });
  const payload: SignPayload = { kind: 'evm-transaction', transaction };
  await insertSlot(db, { ...place, nonce, transactionId: row.id, payload });
  await markSigning(db, { id: row.id, nonce });
  return { payload };
}

function intentOf(row: TransactionRow, maxFeeMinor: string): PaymentIntent {
  return {
    chain: row.chain,
    asset: row.asset,
    to: row.to_address as PaymentIntent['to'],
    amount_minor: row.amount_minor,
    max_fee_minor: maxFeeMinor,
  };
}

function issueReceipt({
  policyKey,
  row,
  wallet,
  payload,
  now,
}: {
  policyKey: AllotDependencies['policyKey'];
  row: TransactionRow;
  wallet: WalletRow;
  payload: SignPayload;
  now: Date;
}): Promise<string> {
  const { gas, maxFeePerGasWei } = payload.transaction;
  const iat = Math.floor(now.getTime() / 1000);
  return signReceipt(policyKey, {
    account_id: row.account_id,
    agent_id: row.agent_id,
    wallet: { key_id: wallet.account_key_id, path: wallet.path, address: wallet.address as `0x${string}` },
    transaction_id: row.id,
    decision_id: row.decision_id!,
    intent: intentOf(row, (BigInt(gas) * BigInt(maxFeePerGasWei)).toString()),
    iat,
    exp: iat + receiptLifetimeSeconds,
  });
}
