import { REGTEST_CHAIN } from '../../dev/btcd.ts';
import { sumOf } from '../../test/support/bitcoin-ledger.ts';
import type { BitcoinPlan } from './bitcoin-plan.ts';
import { formatSat } from './sat.ts';
import type { CrashWorld } from './world.ts';

/** An agent of one round with a wallet on Bitcoin, from which nothing has been sent yet. */
export interface BitcoinAgent {
  readonly id: string;
  readonly address: string;
  readonly limitSat: number | null;
  /** Before the first payment. */
  readonly beforeSat: bigint;
}

/** Makes and funds the Bitcoin agents of some rounds while nothing strikes, deep enough that no reorganisation takes it back. */
export async function prepareBitcoinAgents(
  world: CrashWorld,
  { plans, label }: { plans: readonly (BitcoinPlan | undefined)[]; label: string },
): Promise<BitcoinAgent[][]> {
  const { bitcoin } = world;
  if (!bitcoin) return plans.map(() => []);
  const made: Omit<BitcoinAgent, 'beforeSat'>[][] = [];
  for (const [index, plan] of plans.entries()) {
    const agents = (plan?.agents ?? []).map(async ({ coinsSat, limitSat }, agent) => {
      const { id, address } = await makeAgent(world, { name: `${label}-btc-${index}-${agent}`, limitSat });
      return { id, address, limitSat, coinsSat };
    });
    const round = await Promise.all(agents);
    for (const { address, coinsSat } of round) await bitcoin.fund(address, coinsSat);
    made.push(round.map(({ coinsSat: _, ...agent }) => agent));
  }
  await bitcoin.passFinal();
  return Promise.all(
    made.map((round) =>
      Promise.all(
        round.map(async (agent) => ({ ...agent, beforeSat: sumOf((await bitcoin.wallet(agent.address)).coins) })),
      ),
    ),
  );
}

async function makeAgent(
  { client }: CrashWorld,
  { name, limitSat }: { name: string; limitSat: number | null },
): Promise<Pick<BitcoinAgent, 'id' | 'address'>> {
  const post = async (path: string, body: object, key: string) => {
    const answer = await client.insist(() => client.post(path, body, { key }));
    if (answer.status !== 200) throw new Error(`POST ${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const { id, wallet } = await post('/agents', { agent_name: name, chain: REGTEST_CHAIN }, name);
  if (limitSat !== null) {
    const rules = { daily_limit: formatSat(BigInt(limitSat)), token: 'BTC' };
    await post('/policies', { agent_id: id, type: 'spending_limit', rules }, `${name}-limit`);
  }
  return { id, address: wallet.address };
}
