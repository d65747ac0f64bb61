import type { Address } from 'viem';
import { LOCAL_CHAIN } from '../../dev/anvil.ts';
import { deployToken } from '../../dev/token.ts';
import { insistOn } from './chain.ts';
import { confirmations, type PlannedPolicy, type RoundPlan } from './plan.ts';
import type { CrashWorld } from './world.ts';

/** What each wallet begins with; the faucet of the local chain gives as much. */
const funds = { wei: 10n ** 19n, minorUnits: 10n ** 10n };
const fastBlockMs = 20;

/** An agent of one round, with a wallet that nothing has left yet. */
export interface CrashAgent {
  readonly id: string;
  readonly address: Address;
  readonly policies: readonly PlannedPolicy[];
  /** Before the first payment. */
  readonly before: { readonly wei: bigint; readonly minorUnits: bigint };
}

/** Makes and funds the agents of some rounds while nothing strikes, deep enough that no reorganisation takes it back. */
export async function prepareAgents(
  world: CrashWorld,
  { plans, label }: { plans: readonly RoundPlan[]; label: string },
): Promise<CrashAgent[][]> {
  const { chain, stack, usdcAddress } = world;
  chain.setBlockTime(fastBlockMs);
  const token = await insistOn(() => deployToken({ rpcUrl: stack.rpcUrl }));
  const made: Omit<CrashAgent, 'before'>[][] = [];
  for (const [index, plan] of plans.entries()) {
    const names = plan.agents.map((_, agent) => `${label}-${index}-${plan.seed}-${agent}`);
    const agents = await Promise.all(
      names.map((name, agent) => makeAgent(world, { name, policies: plan.agents[agent]! })),
    );
    for (const { address } of agents) await insistOn(() => token.topUp({ address, ...funds }));
    made.push(agents);
  }
  await chain.pass(confirmations);
  return Promise.all(
    made.map((agents) =>
      Promise.all(
        agents.map(async (agent) => ({ ...agent, before: await chain.balances(agent.address, usdcAddress) })),
      ),
    ),
  );
}

async function makeAgent(
  { client }: CrashWorld,
  { name, policies }: { name: string; policies: readonly PlannedPolicy[] },
): Promise<Omit<CrashAgent, 'before'>> {
  const post = async (path: string, body: object, key: string) => {
    const answer = await client.insist(() => client.post(path, body, { key }));
    if (answer.status !== 200) throw new Error(`POST ${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const agent = await post('/agents', { agent_name: name, chain: LOCAL_CHAIN }, name);
  for (const policy of policies)
    await post(
      '/policies',
      { agent_id: agent.id, ...policy },
      `${name}-${policy.type}-${'token' in policy.rules ? policy.rules.token : ''}`,
    );
  return { id: agent.id, address: agent.wallet.address, policies };
}
