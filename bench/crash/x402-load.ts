import { setTimeout as delay } from 'node:timers/promises';
import type { CrashAgent } from './agents.ts';
import type { Answer } from './client.ts';
import type { CrashWorld } from './world.ts';
import { headerSeconds, type PlannedX402, type X402Plan } from './x402-plan.ts';

/** A client that waits for its header asks so often, and for so long. */
const lookMs = 200;
const headerWithinMs = 180_000;

/** The agent of a round that pays web APIs, and nothing else; and its session. */
export interface Buyer {
  readonly agent: CrashAgent;
  readonly sessionId: string;
}

/** A payment that was asked for, and what was answered. */
export interface AskedX402 {
  readonly planned: PlannedX402;
  /** Its Idempotency-Key. */
  readonly key: string;
  readonly answers: Answer[];
}

export function planAskedX402({ payments }: X402Plan, { sessionId }: Buyer): AskedX402[] {
  return payments.map((planned, index) => ({ planned, key: `${sessionId} ${index}`, answers: [] }));
}

/** The id in an answer that says that a payment was stored, also when it came to nothing. */
export function ledgerId({ status, body }: Answer): string | undefined {
  return status === 200 ? body.ledger_id : body.details?.ledger_id;
}

/** The ids of what has been accepted so far, and the session's: what an operator may do harm to. */
export function x402Ids({ sessionId }: Buyer, asked: readonly AskedX402[]): string[] {
  const ids = asked.flatMap(({ answers }) => answers.map(ledgerId)).filter((id) => id !== undefined);
  return [...new Set(ids), sessionId];
}

/**
 * Asks for every payment at its instant, has the headers used that are to be used, and the session deleted if it is to be.
 * Resolves when nobody waits for anything any more.
 */
export async function askX402(
  world: CrashWorld,
  { buyer, plan, asked, from }: { buyer: Buyer; plan: X402Plan; asked: readonly AskedX402[]; from: number },
): Promise<void> {
  const at = (ms: number) => delay(Math.max(from + ms - Date.now(), 0));
  const deletion = async () => {
    if (plan.deletedAtMs === null) return;
    await at(plan.deletedAtMs);
    await deleteSession(world, buyer);
  };
  await Promise.all([
    deletion(),
    ...asked.map(async (each) => {
      await at(each.planned.atMs);
      await askOne(world, { buyer, asked: each });
      const header = each.planned.usedAfterMs === null ? undefined : await headerOf(world, { buyer, asked: each });
      if (header === undefined) return;
      await delay(each.planned.usedAfterMs!);
      await world.chain.useHeader(header, world.usdcAddress);
    }),
  ]);
}

/** Once more does no harm. @throws when it cannot be deleted */
export async function deleteSession({ client }: CrashWorld, { sessionId }: Buyer): Promise<void> {
  const { status, body } = await client.insist(() => client.delete(`/x402/sessions/${sessionId}`));
  if (status !== 200) throw new Error(`DELETE /x402/sessions/${sessionId}: ${status} ${JSON.stringify(body)}`);
}

async function askOne(
  { client, target }: CrashWorld,
  { buyer, asked: { planned, key, answers } }: { buyer: Buyer; asked: AskedX402 },
): Promise<void> {
  const target_url = `${target.url}/weather?amount=${planned.amountMinor}&maxTimeoutSeconds=${headerSeconds}`;
  const post = async () => {
    const answer = await client.post(`/x402/sessions/${buyer.sessionId}/pay`, { target_url }, { key });
    answers.push(answer);
    return answer;
  };
  if (planned.client === 'once') return void (await post().catch(() => {}));
  const insist = () => client.insist(post);
  if (planned.client === 'twice') await Promise.all([insist(), insist()]);
  else await insist();
  if (planned.client === 'repeats') await insist();
}

/** What the client sends to its target, once it has it; undefined where there is nothing to be had. */
async function headerOf(
  { client }: CrashWorld,
  { buyer, asked }: { buyer: Buyer; asked: AskedX402 },
): Promise<string | undefined> {
  const id = asked.answers.map(ledgerId).find((each) => each !== undefined);
  if (id === undefined) return undefined;
  const path = `/x402/sessions/${buyer.sessionId}/payments/${id}`;
  for (const deadline = Date.now() + headerWithinMs; Date.now() < deadline; await delay(lookMs)) {
    const { body } = await client.insist(() => client.get(path));
    if (body.status === 'failed') return undefined;
    if (body.payment_signature) return body.payment_signature;
  }
  return undefined;
}
