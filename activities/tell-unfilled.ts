import { insertEvent, wasToldUnfilled } from '../shared/db/events.ts';
import type { GasWanted } from '../shared/db/gas-fills.ts';
import type { Queryable } from '../shared/db/pool.ts';

/** Why a wallet that is low is not filled up. */
export interface Unfilled {
  /** For programs: what keeps the funding agent from paying, or the failure code of its payment. */
  readonly reason: string;
  /** For people, as a sentence. */
  readonly why: string;
  readonly fundingAgentId: string;
  /** The payment that failed; null where none was made. */
  readonly transactionId: string | null;
}

/**
 * Tells receivers of events why a wallet is not filled up, once for each reason as long as the wallet is low. Hold the
 * lock of its account, or tell of a payment that is told to nobody else.
 * @returns whether it was told now
 */
export async function tellUnfilled(
  db: Queryable,
  { wanted, unfilled }: { wanted: GasWanted; unfilled: Unfilled },
): Promise<boolean> {
  const { account_id: accountId, agent_id: agentId, chain, address, low_since: since } = wanted;
  const { reason, why, fundingAgentId, transactionId } = unfilled;
  if (await wasToldUnfilled(db, { agentId, chain, reason, since })) return false;
  const top_up = { reason, funding_agent_id: fundingAgentId, transaction_id: transactionId };
  const message = `The wallet ${address} is low on coins for fees on ${chain}, and is not filled up: ${why}`;
  await insertEvent(db, {
    ...{ accountId, agentId, type: 'agent.low_gas', resourceType: 'agent', resourceId: agentId },
    data: { agent_id: agentId, chain, address, top_up, message },
  });
  return true;
}
