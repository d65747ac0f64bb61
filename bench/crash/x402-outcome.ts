import type { Hex } from 'viem';
import type { Pool } from '../../shared/db/pool.ts';
import type { AskedX402, Buyer } from './x402-load.ts';

/** A payment out of a session as the database has it. */
export interface StoredX402 {
  readonly id: string;
  readonly status: 'pending' | 'completed' | 'failed';
  readonly failure_code: string | null;
  readonly settlement: 'unsettled' | 'settled' | 'expired' | null;
  readonly tx_hash: Hex | null;
  readonly auth_nonce: Hex | null;
  /** Unix seconds. */
  readonly valid_before: number | null;
  readonly minor: bigint;
  readonly fee_minor: bigint;
  readonly payment_signature: string | null;
  /** Unix seconds. */
  readonly changed_at: number;
}

/** What came of a round's session when nothing of it is open any more. */
export interface X402Outcome {
  readonly buyer: Buyer;
  readonly asked: readonly AskedX402[];
  readonly stored: readonly StoredX402[];
  readonly spentMinor: bigint;
  readonly budgetMinor: bigint;
  /** Authorisations of the wallet that the chain has seen used, by nonce, with their transactions. */
  readonly used: ReadonlyMap<Hex, Hex>;
  /** Of a block that no reorganisation reaches; Unix seconds. */
  readonly chainTime: number;
  readonly afterMinor: bigint;
  /** Transactions that the wallet has sent itself. */
  readonly count: number;
}

export async function readSession(
  pool: Pool,
  { sessionId }: Buyer,
): Promise<Pick<X402Outcome, 'stored' | 'spentMinor' | 'budgetMinor'>> {
  const { rows } = await pool.query(
    `select id, status, failure_code, settlement, tx_hash, auth_nonce, valid_before, amount_minor, fee_minor,
            payment_signature, extract(epoch from updated_at)::float8 as changed_at
     from x402_payments where session_id = $1 order by id`,
    [sessionId],
  );
  const { rows: sessions } = await pool.query<{ spent_minor: string; budget_minor: string }>(
    'select spent_minor, budget_minor from x402_sessions where id = $1',
    [sessionId],
  );
  const stored = rows.map(
    ({ valid_before, amount_minor, fee_minor, ...row }): StoredX402 => ({
      ...row,
      valid_before: valid_before === null ? null : Number(valid_before),
      minor: BigInt(amount_minor),
      fee_minor: BigInt(fee_minor),
    }),
  );
  return { stored, spentMinor: BigInt(sessions[0]!.spent_minor), budgetMinor: BigInt(sessions[0]!.budget_minor) };
}

/** How many payments of a buyer are not over. */
export async function countOpen(pool: Pool, { sessionId }: Buyer): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from x402_payments
     where session_id = $1 and (status = 'pending' or settlement = 'unsettled')`,
    [sessionId],
  );
  return rows[0]!.count;
}
