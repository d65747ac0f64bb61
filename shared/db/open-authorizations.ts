import type { Address, Hex } from 'viem';
import type { Queryable } from './pool.ts';

/** An authorisation of which it is not known what becomes. Columns of type bigint are decimal strings. */
export interface OpenAuthorizationRow {
  /** The payment. */
  readonly id: string;
  readonly asset: Address;
  readonly from_address: Address;
  readonly auth_nonce: Hex;
  /** Unix seconds. */
  readonly valid_after: string;
  readonly valid_before: string;
}

/** Those of a chain, the one that is over soonest first. */
export async function listOpenAuthorizations(
  db: Queryable,
  { chain, limit }: { chain: string; limit: number },
): Promise<OpenAuthorizationRow[]> {
  const { rows } = await db.query<OpenAuthorizationRow>(
    `select id, asset, from_address, auth_nonce, valid_after, valid_before from x402_payments
     where chain = $1 and settlement = 'unsettled' order by valid_before limit $2`,
    [chain, limit],
  );
  return rows;
}

/** Whether there is one on this chain. */
export async function hasOpenAuthorizations(db: Queryable, { chain }: { chain: string }): Promise<boolean> {
  const { rowCount } = await db.query(
    `select from x402_payments where chain = $1 and settlement = 'unsettled' limit 1`,
    [chain],
  );
  return rowCount === 1;
}
