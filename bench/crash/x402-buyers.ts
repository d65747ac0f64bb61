import { formatUnits } from 'viem';
import { LOCAL_CHAIN } from '../../dev/anvil.ts';
import { prepareAgents } from './agents.ts';
import type { RoundPlan } from './plan.ts';
import type { CrashWorld } from './world.ts';
import type { Buyer } from './x402-load.ts';

/** Longer than any round takes. */
const sessionSeconds = 3_600;

/** Makes and funds the agent that pays web APIs in each of some rounds, and opens its session, while nothing strikes. */
export async function prepareBuyers(
  world: CrashWorld,
  { plans, label }: { plans: readonly RoundPlan[]; label: string },
): Promise<Buyer[]> {
  const { client } = world;
  const alone = plans.map((plan) => ({ ...plan, agents: [[]] }));
  const agents = (await prepareAgents(world, { plans: alone, label: `${label}-buyer` })).flat();
  return Promise.all(
    agents.map(async (agent, index): Promise<Buyer> => {
      const body = {
        ...{ agent_id: agent.id, chain: LOCAL_CHAIN, ttl_seconds: sessionSeconds },
        budget_limit: formatUnits(BigInt(plans[index]!.x402.budgetMinor), 6),
      };
      const answer = await client.insist(() => client.post('/x402/sessions', body, { key: `session ${agent.id}` }));
      if (answer.status !== 200) throw new Error(`POST /x402/sessions: ${JSON.stringify(answer.body)}`);
      return { agent, sessionId: answer.body.id };
    }),
  );
}
