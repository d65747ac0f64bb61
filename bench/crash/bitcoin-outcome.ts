import { REGTEST_CHAIN } from '../../dev/btcd.ts';
import type { Pool } from '../../shared/db/pool.ts';
import type { BitcoinAgent } from './bitcoin-agents.ts';
import type { BitcoinWallet } from './bitcoin-chain.ts';
import type { BitcoinPlan } from './bitcoin-plan.ts';
import type { Asked } from './load.ts';
import { formatSat } from './sat.ts';
import type { StoredPayment } from './stored.ts';

/** A coin that the database says a payment took. */
export interface TakenCoin {
  readonly txid: string;
  readonly vout: number;
  readonly transaction_id: string;
}

/** What happened in a round on Bitcoin when nothing of it is pending any more. */
export interface BitcoinOutcome {
  readonly agents: readonly BitcoinAgent[];
  readonly asked: readonly Asked[];
  /** All rows of the agents. */
  readonly stored: readonly StoredPayment[];
  /** By the agent's id. */
  readonly wallets: ReadonlyMap<string, BitcoinWallet>;
  /** Coins of all payments of the agents. */
  readonly taken: readonly TakenCoin[];
}

export function planAskedBitcoin({ payments }: BitcoinPlan, agents: readonly BitcoinAgent[]): Asked[] {
  return payments.map((planned, index) => {
    const agent = agents[planned.agent]!;
    const memo = `${agent.id} ${index}`;
    const to_address = typeof planned.to === 'number' ? agents[planned.to]!.address : planned.to;
    const body = {
      ...{ agent_id: agent.id, direction: 'outbound', type: 'transfer', chain: REGTEST_CHAIN },
      ...{ to_address, amount: formatSat(BigInt(planned.amountSat)), token: 'BTC', memo },
    };
    return { planned, memo, body, answers: [] };
  });
}

export async function readTakenCoins(pool: Pool, agents: readonly BitcoinAgent[]): Promise<TakenCoin[]> {
  const { rows } = await pool.query<TakenCoin>(
    `select c.txid, c.vout, c.transaction_id from coins c join transactions t on t.id = c.transaction_id
     where t.agent_id = any($1)`,
    [agents.map(({ id }) => id)],
  );
  return rows;
}
