import { generateKeyPairSync, randomBytes } from 'node:crypto';
import type { CryptoKey } from 'jose';
import { Registry } from 'prom-client';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { holdFrozen } from '../activities/hold-frozen.ts';
import { LOCAL_CHAIN } from '../dev/anvil.ts';
import type { Progress } from '../dev/progress.ts';
import { createPool, inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { newId } from '../shared/ids.ts';
import { createLogger } from '../shared/log.ts';
import { measureDatabase } from '../shared/metrics/database-gauges.ts';
import type { PaymentFacts } from '../shared/payment.ts';
import { startOtlpReceiverDouble } from '../test/support/otlp-receiver-double.ts';
import { createDatabaseWatch } from './database-watch.ts';
import { tidyTables } from './decisions.ts';
import { createPaymentRequests } from './payment-requests.ts';
import { createPaymentClient, type PaymentClient } from './payments.ts';
import type { MeasuredPart, Ratio } from './report.ts';
import { type Durations, interleave, summarise, timed } from './samples.ts';
import { insertFreezes, insertWatched } from './watched-rows.ts';
import { withDatabase } from './with-database.ts';
import { type BenchStack, withStack } from './with-stack.ts';

/** What a scrape finds. */
const watched = { open: 10_000, ended: 100_000 };
const freezes = 1_000;
/** Signatures are allowed as quickly beside many freezes of others. */
const freezesAim = 1.25;

export interface OperationsPlan {
  readonly payments: number;
  readonly warmUpPayments: number;
  readonly receipts: number;
  readonly scrapes: number;
  /** Longest time of each part. */
  readonly limitMs: number;
}
export const fullOperationsPlan: OperationsPlan = {
  ...{ payments: 60, warmUpPayments: 5, receipts: 1_000, scrapes: 60, limitMs: 180_000 },
};
export const quickOperationsPlan: OperationsPlan = {
  ...{ payments: 8, warmUpPayments: 2, receipts: 100, scrapes: 8, limitMs: 60_000 },
};

const names = {
  select: 'floor, select 1',
  scrape: `scrape, ${shown(watched.open)} open, ${shown(watched.ended)} ended`,
  receipt: 'floor, receipt in a transaction, no look at freezes',
  unfrozen: 'receipt in a transaction, nothing frozen',
  othersFrozen: `receipt in a transaction, ${shown(freezes)} others frozen`,
  hash: (isTraced: boolean) => `USDC, traces ${isTraced ? 'on' : 'off'}: POST → hash`,
  confirmed: (isTraced: boolean) => `USDC, traces ${isTraced ? 'on' : 'off'}: POST → confirmed`,
} as const;

interface OperationsContext {
  readonly env: NodeJS.ProcessEnv;
  readonly plan: OperationsPlan;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

/** What it costs to see and to stop the service: scrapes, the look at freezes before each receipt, traces. */
export async function measureOperations(context: OperationsContext): Promise<MeasuredPart> {
  const { progress } = context;
  const inDatabases = await withDatabase({ progress }, (quiet) =>
    withDatabase({ progress }, (full) => measureDatabases({ quiet, full }, context)),
  );
  const found = [...inDatabases, ...(await measureTraces(context))];
  const durations = new Map(found.map(([name, ms]) => [name, summarise(ms)]));
  return { durations, throughput: new Map(), ratios: ratiosOf((name) => durations.get(name)!.p50) };
}

type Urls = Parameters<Parameters<typeof withDatabase>[1]>[0];

async function measureDatabases(
  { quiet, full }: { quiet: Urls; full: Urls },
  { plan, progress, signal }: OperationsContext,
): Promise<Map<string, number[]>> {
  const pools = [quiet, full].map(({ appUrl }) => createPool({ url: appUrl, max: 2, application: 'purser-bench' }));
  const [nothing, many] = pools as [Pool, Pool];
  const { warmUpPayments: warmUp, limitMs } = plan;
  try {
    await progress.step('payments under way, ended ones, freezes', async () => {
      await insertWatched(many, watched);
      await insertFreezes(many, { count: freezes });
      await tidyTables(full.ownerUrl);
    });
    const receipts = await progress.step('receipts, in turn', () =>
      interleave(receiptCases({ nothing, many }), { warmUp, rounds: plan.receipts, limitMs, signal }),
    );
    const scrapes = await progress.step('scrapes, the floor in turn', () =>
      interleave(scrapeCases(many), { warmUp: 1, rounds: plan.scrapes, limitMs, signal }),
    );
    return new Map([...receipts, ...scrapes]);
  } finally {
    await Promise.all(pools.map((pool) => pool.end()));
  }
}

/** As the step does it that allows a signature, but for what it decides besides. */
function receiptCases({ nothing, many }: { nothing: Pool; many: Pool }): (() => Promise<Durations>)[] {
  const policyKey = generateKeyPairSync('ed25519').privateKey as unknown as CryptoKey;
  const nextRequest = createPaymentRequests(
    {
      ...{ keyId: newId('ckey'), path: 'm/44/60/0/0/0', accountId: newId('acct'), chain: LOCAL_CHAIN },
      publicKey: privateKeyToAccount(generatePrivateKey()).publicKey,
      chainCode: `0x${randomBytes(32).toString('hex')}`,
    },
    policyKey,
  );
  const row = { id: newId('tx'), account_id: newId('acct'), agent_id: newId('agent') } as PaymentFacts;
  const allow = (pool: Pool, look: (db: Queryable) => Promise<unknown>) =>
    timed(() =>
      inTransaction(pool, async (db) => {
        await db.query('select * from agents where id = $1 for no key update', [row.agent_id]);
        if (await look(db)) throw new Error('What is measured is a payment that is not frozen.');
        await nextRequest();
      }),
    );
  return [
    async () => ({ [names.receipt]: await allow(nothing, async () => false) }),
    async () => ({ [names.unfrozen]: await allow(nothing, (db) => holdFrozen(db, row)) }),
    async () => ({ [names.othersFrozen]: await allow(many, (db) => holdFrozen(db, row)) }),
  ];
}

/** Each scrape looks anew: in service a look is good for five seconds. */
function scrapeCases(pool: Pool): (() => Promise<Durations>)[] {
  const log = createLogger({ process: 'bench', level: 'error' });
  return [
    async () => ({ [names.select]: await timed(() => pool.query('select 1')) }),
    async () => {
      const registry = new Registry();
      measureDatabase({ pool, registry, log });
      let text = '';
      const ms = await timed(async () => {
        text = await registry.metrics();
      });
      if (!text.includes(`} ${watched.open}\n`)) throw new Error('The scrape did not find the payments under way.');
      return { [names.scrape]: ms };
    },
  ];
}

/** Two stacks side by side, one with traces, and payments on each in turn. */
async function measureTraces(context: OperationsContext): Promise<Map<string, number[]>> {
  const { env, plan, progress, signal } = context;
  const collector = await startOtlpReceiverDouble();
  const on = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
  const off = { OTEL_EXPORTER_OTLP_ENDPOINT: undefined };
  try {
    return await withStack({ env, progress, signal, more: off }, (plain) =>
      withStack({ env, progress, signal, more: on }, async (traced) => {
        const payers = await Promise.all([createPayer(plain), createPayer(traced)]);
        try {
          const cases = payers.map(
            ({ pay }, index) =>
              () =>
                pay(index === 1),
          );
          const { payments: rounds, warmUpPayments: warmUp, limitMs } = plan;
          const found = await progress.step('payments with traces and without, in turn', () =>
            interleave(cases, { warmUp, rounds, limitMs, signal }),
          );
          if (collector.spans.length === 0) throw new Error('No trace has come: nothing was measured of them.');
          return found;
        } finally {
          await Promise.all(payers.map(({ close }) => close()));
        }
      }),
    );
  } finally {
    await collector.stop();
  }
}

async function createPayer({ facts }: BenchStack) {
  const watch = await createDatabaseWatch({ databaseUrl: facts.database_url });
  const payer: PaymentClient = createPaymentClient({ facts, watch });
  const { id: agentId } = await payer.createAgent({ name: 'bench', chain: facts.chain });
  return {
    async pay(isTraced: boolean): Promise<Durations> {
      const { hashMs, confirmedMs } = await payer.payAlone({ agentId, token: 'USDC' });
      return { [names.hash(isTraced)]: hashMs, [names.confirmed(isTraced)]: confirmedMs };
    },
    close: () => watch.close(),
  };
}

function ratiosOf(p50: (name: string) => number): Ratio[] {
  const grown = p50(names.othersFrozen) / p50(names.unfrozen);
  return [
    { name: 'POST → hash, traces on / off', value: p50(names.hash(true)) / p50(names.hash(false)) },
    { name: 'POST → confirmed, traces on / off', value: p50(names.confirmed(true)) / p50(names.confirmed(false)) },
    { name: 'receipt, with the look at freezes / without', value: p50(names.unfrozen) / p50(names.receipt) },
    {
      name: `receipt, ${shown(freezes)} others frozen / none`,
      value: grown,
      aim: freezesAim,
      isMet: grown <= freezesAim,
    },
    { name: 'scrape / select 1', value: p50(names.scrape) / p50(names.select) },
  ];
}

function shown(count: number): string {
  return count.toLocaleString('en-US');
}
