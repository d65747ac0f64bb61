import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Progress } from '../dev/progress.ts';
import { isAlive } from '../dev/signals.ts';
import { createPool, type Pool } from '../shared/db/pool.ts';
import { newId } from '../shared/ids.ts';
import { type OwnStack, type PartName, startOwnStack } from '../test/support/own-stack.ts';
import { makeWorkflowBundle } from '../worker/bundle.ts';
import { type CrashClient, createCrashClient } from './crash/client.ts';
import { recipient } from './payments.ts';
import { type Summary, summarise } from './samples.ts';

export const fullKillsEach = 12;
export const quickKillsEach = 2;

const chain = 'eip155:31337';
const confirmWithinMs = 90_000;
/** Pause between two looks at the database; part of what is measured. */
const lookMs = 20;
/** A payment that takes no longer than this says that everything works as before. */
const healthyMs = 1_500;
const healthyWithinMs = 30_000;

/** What is killed, by the name of its row; nothing, to compare with. */
const kinds: Readonly<Record<string, readonly PartName[]>> = {
  nothing: [],
  'both workers': ['worker', 'worker-2'],
  'one of two workers': ['worker'],
  'the api': ['api'],
  'one signer': ['signer-1'],
  Temporal: ['temporal'],
  Postgres: ['postgres'],
};

interface World {
  readonly stack: OwnStack;
  readonly client: CrashClient;
  readonly pool: Pool;
  readonly agentId: string;
  readonly signal: AbortSignal;
}

/**
 * Kills each part in turn with SIGKILL, asks for a payment at that moment, and counts until it is confirmed. Whatever
 * dies is started again at once; the next kill waits until payments take no longer than usual.
 * @returns milliseconds by what was killed
 */
export async function measureRecovery({
  killsEach,
  progress,
  signal,
}: {
  killsEach: number;
  progress: Progress;
  signal: AbortSignal;
}): Promise<ReadonlyMap<string, Summary>> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-recovery-'));
  // A worker that makes its bundle by itself comes back two seconds later.
  const bundleFile = join(dir, 'workflows.js');
  writeFileSync(bundleFile, (await makeWorkflowBundle()).code);
  const stack = await progress.step('a stack to be killed', () =>
    startOwnStack({ workers: 2, env: { PURSER_WORKFLOW_BUNDLE: bundleFile } }),
  );
  const pool = createPool({ url: stack.databaseUrl, max: 2, application: 'purser-bench' });
  try {
    const client = createCrashClient(stack);
    const made = await client.post('/agents', { agent_name: 'recovery', chain });
    const world: World = { stack, client, pool, agentId: made.body.id, signal };
    const found = new Map<string, number[]>();
    await progress.step(`kills, ${killsEach} of each kind in turn`, async () => {
      for (let round = 0; round < killsEach; round += 1)
        for (const [name, victims] of Object.entries(kinds)) {
          await untilHealthy(world);
          found.set(name, [...(found.get(name) ?? []), await recoverMs(world, victims)]);
        }
    });
    return new Map([...found].map(([name, ms]) => [name, summarise(ms)]));
  } finally {
    await pool.end();
    await stack.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** From the kill to the confirmation of a payment whose POST begins at the same moment. */
async function recoverMs(world: World, victims: readonly PartName[]): Promise<number> {
  const from = performance.now();
  for (const victim of victims) process.kill(world.stack.pid(victim), 'SIGKILL');
  await pay(world);
  return performance.now() - from;
}

/** One payment to its confirmation, by a client that asks again with the same key until it is answered. */
async function pay({ client, pool, agentId, signal }: World): Promise<void> {
  const body = { agent_id: agentId, direction: 'outbound', type: 'transfer', chain };
  const payment = { ...body, to_address: recipient, amount: '0.01', token: 'USDC' };
  const key = newId('tx');
  const { status, body: answer } = await client.insist(() => client.post('/transactions', payment, { key }));
  if (status !== 200) throw new Error(`A payment was refused: HTTP ${status} ${JSON.stringify(answer)}`);
  for (const deadline = Date.now() + confirmWithinMs; Date.now() < deadline; await delay(lookMs)) {
    signal.throwIfAborted();
    const found = await pool
      .query<{ status: string }>('select status from transactions where id = $1', [answer.id])
      .catch(() => undefined);
    const state = found?.rows[0]?.status;
    if (state === 'confirmed') return;
    if (state === 'failed') throw new Error(`Payment ${answer.id} failed, so nothing can be measured.`);
  }
  throw new Error(`Payment ${answer.id} was not confirmed within ${confirmWithinMs / 1000} s.`);
}

/** Until every part lives, the api says that it is ready, and a payment takes no longer than usual. */
async function untilHealthy(world: World): Promise<void> {
  const { stack, signal } = world;
  const names = [...new Set(Object.values(kinds).flat())];
  for (const deadline = Date.now() + healthyWithinMs; ; await delay(lookMs)) {
    signal.throwIfAborted();
    if (Date.now() > deadline) return;
    if (!names.every((name) => isAlive(stack.pid(name)))) continue;
    const isReady = await fetch(`${stack.baseUrl}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (!isReady) continue;
    const from = performance.now();
    await pay(world);
    if (performance.now() - from <= healthyMs) return;
  }
}
