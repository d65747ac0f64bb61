import { setTimeout as delay } from 'node:timers/promises';
import { LOCAL_CHAIN } from '../../dev/anvil.ts';
import type { CrashAgent } from './agents.ts';
import type { Asking, PlannedChange } from './asking.ts';
import type { Answer } from './client.ts';
import type { RoundPlan } from './plan.ts';
import type { CrashWorld } from './world.ts';

/** A payment that was asked for, and what was answered. */
export interface Asked {
  readonly planned: Asking;
  /** Found again in the list by it; unique. */
  readonly memo: string;
  readonly body: object;
  /** Every answer that came. None is there when the only one got lost. */
  readonly answers: Answer[];
}

/** The id in an answer that says that a payment was stored, also when it was denied. */
export function storedId({ status, body }: Answer): string | undefined {
  return status === 200 ? body.id : body.details?.transaction_id;
}

export function planAsked(plan: RoundPlan, agents: readonly CrashAgent[]): Asked[] {
  return plan.payments.map((planned, index) => {
    const agent = agents[planned.agent]!;
    const to = typeof planned.to === 'number' ? agents[planned.to]!.address : planned.to;
    const memo = `${agent.id} ${index}`;
    const { amount, token } = planned;
    const body = {
      ...{ agent_id: agent.id, direction: 'outbound', type: 'transfer', chain: LOCAL_CHAIN },
      ...{ to_address: to, amount, token, memo },
    };
    return { planned, memo, body, answers: [] };
  });
}

/** The ids of what has been accepted so far, in the order of the plan. */
export function acceptedIds(asked: readonly Asked[]): string[] {
  return [...new Set(asked.flatMap(({ answers }) => answers.map(storedId)).filter((id) => id !== undefined))];
}

/** Asks for every payment at its instant, as its client would. Resolves when each client is content or has given up. */
export async function ask(
  world: CrashWorld,
  { asked, from }: { asked: readonly Asked[]; from: number },
): Promise<void> {
  await Promise.all(
    asked.map(async (each) => {
      await delay(Math.max(from + each.planned.atMs - Date.now(), 0));
      await askOne(world, each);
    }),
  );
}

async function askOne({ client }: CrashWorld, { memo, body, answers, planned }: Asked): Promise<void> {
  const post = async () => {
    const answer = await client.post('/transactions', body, { key: memo });
    answers.push(answer);
    return answer;
  };
  if (planned.client === 'once') return void (await post().catch(() => {}));
  const insist = () => client.insist(post);
  if (planned.client === 'twice') await Promise.all([insist(), insist()]);
  else await insist();
  if (planned.client === 'repeats') await insist();
}

/**
 * Has payments cancelled or sped up, each at its instant. That it is too late for it is an answer as well.
 * @returns answers that are none, a sentence each
 */
export async function change(
  { client }: CrashWorld,
  {
    changes,
    asked,
    from,
    label,
  }: { changes: readonly PlannedChange[]; asked: readonly Asked[]; from: number; label: string },
): Promise<string[]> {
  const problems = await Promise.all(
    changes.map(async ({ atMs, change: wanted, pick }, index) => {
      await delay(Math.max(from + atMs - Date.now(), 0));
      const ids = acceptedIds(asked);
      if (ids.length === 0) return [];
      const path = `/transactions/${ids[pick % ids.length]}/${wanted}`;
      const key = `${label} ${index}`;
      const { status, body } = await client.insist(() => client.post(path, {}, { key }));
      return status === 200 || status === 409 ? [] : [`POST ${path}: ${status} ${JSON.stringify(body)}.`];
    }),
  );
  return problems.flat();
}
