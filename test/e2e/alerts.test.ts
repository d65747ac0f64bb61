import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { BufferedMetricUpdate } from '@temporalio/worker';
import pg from 'pg';
import { Registry } from 'prom-client';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRequestMeasures } from '../../api/middleware/measure-requests.ts';
import { createPool } from '../../shared/db/pool.ts';
import { newId } from '../../shared/ids.ts';
import { createLogger } from '../../shared/log.ts';
import { measurePool } from '../../shared/metrics/pool.ts';
import type { SignerClient } from '../../signer/client.ts';
import { SignRefused } from '../../signer/errors.ts';
import { measureSigner } from '../../signer/metrics.ts';
import { measureSigners } from '../../worker/measure-signers.ts';
import { measureTemporal } from '../../worker/measure-temporal.ts';
import { metricsIn, readAlertRules, readDashboardExpressions } from '../support/alert-rules.ts';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type HostedSigners, hostSigners } from '../support/hosted-signers.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';
import { promqlEngine } from '../support/promql-engine.ts';
import { type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts';
import { alertsFiring, metricOf, type Scrape, scrapeAll, type Target } from '../support/scrapes.ts';
import { insertTestSession, insertTestX402 } from '../support/x402-rows.ts';

const chain = 'eip155:31337';
const bitcoin = 'bip122:0f9188f13cb7b2c71f2a335e3a4fc328';
/** Nobody listens there. */
const nobody = 'smtp://127.0.0.1:9';
/** Longer than the database's answers are kept. */
const freshWithinMs = 180_000;

const engine = promqlEngine();
const rules = readAlertRules();
const fired = new Set<string>();
const seen: Scrape[] = [];

let stack: OwnStack;
let proxy: RpcProxy;
let client: TestClient;
let pool: pg.Pool;
let hosted: HostedSigners;
/** Metrics of parts in this process: those that no process can be brought to in a test. */
const parts = new Registry();
const signerParts = new Registry();

beforeAll(async () => {
  stack = await startOwnStack({
    metrics: true,
    env: { PURSER_SMTP_URL: nobody, PURSER_FAILED_AUTH_PER_MINUTE: '2' },
    endpoints: async (target) => {
      proxy = await startRpcProxy({ target });
      return [proxy.url];
    },
  });
  client = createTestClient(stack);
  pool = new pg.Pool({ connectionString: stack.databaseUrl, max: 3 });
  pool.on('error', () => {});
  hosted = await hostSigners();
});
afterAll(async () => {
  await pool?.end();
  await stack?.stop();
  await hosted?.stop();
  await proxy?.stop();
});

function targets(): Target[] {
  const ofProcesses = Object.entries(stack.metricsUrls)
    .filter(([name]) => !name.endsWith('-2') || name.startsWith('signer'))
    .map(([name, url]) => ({
      ...{ job: `purser-${name.replace(/-\d$/, '')}`, instance: name },
      read: async () => (await fetch(url!)).text(),
    }));
  return [
    ...ofProcesses,
    { job: 'parts', instance: 'parts', read: () => parts.metrics() },
    { job: 'parts', instance: 'signer', read: () => signerParts.metrics() },
  ];
}

async function scrape(): Promise<Scrape> {
  const found = await scrapeAll(targets());
  seen.push(found);
  return found;
}

/** Looks until what is to be seen is there. */
const seeing = (isThere: (now: Scrape) => boolean) => eventually(scrape, isThere, { timeoutMs: freshWithinMs });

/** Notes what fires, and requires at least these. */
async function expectFiring(scrapes: readonly [Scrape, Scrape], wanted: readonly string[]): Promise<void> {
  const firing = await alertsFiring(engine!, { rules, scrapes });
  for (const alert of firing) fired.add(alert);
  expect(firing).toEqual(expect.arrayContaining([...wanted]));
}

async function newAgent(): Promise<string> {
  const { body, status } = await client.post('/agents', { agent_name: `agent ${Math.random()}`, chain });
  expect(status).toBe(200);
  return body.id;
}
const pay = (agentId: string, amount: string) =>
  client.post('/transactions', {
    ...{ agent_id: agentId, direction: 'outbound', type: 'transfer', chain, token: 'USDC', amount },
    to_address: privateKeyToAddress(generatePrivateKey()),
  });

describe.skipIf(engine === undefined)(
  'alerts, judged by Prometheus’ own engine (needs Go, or its cached build)',
  () => {
    let agentId: string;
    let paidId: string;
    let walletId: string;
    let accountId: string;

    it('are silent while payments are made, and every metric that they and the dashboard name is there', {
      timeout: 400_000,
    }, async () => {
      agentId = await newAgent();
      const paid = await pay(agentId, '1');
      paidId = paid.body.id;
      await eventually(
        () => client.get(`/transactions/${paidId}`),
        ({ body }) => body.status === 'confirmed',
        { timeoutMs: freshWithinMs },
      );
      const { rows } = await pool.query('select account_id, wallet_id from transactions where id = $1', [paidId]);
      ({ account_id: accountId, wallet_id: walletId } = rows[0]);
      const lastRound = (now: Scrape) => metricOf(now, 'purser_watcher_last_round_timestamp_seconds') ?? 0;
      const look = async () => {
        const first = await seeing((now) => (metricOf(now, 'purser_signatures_total', { outcome: 'ok' }) ?? 0) > 0);
        await client.get('/agents');
        const second = await seeing((now) => lastRound(now) > lastRound(first));
        return { second, firing: await alertsFiring(engine!, { rules, scrapes: [first, second] }) };
      };
      // A machine on which everything is slow for a while is told of, and rightly.
      const { second } = await eventually(look, ({ firing }) => firing.length === 0, { timeoutMs: freshWithinMs });
      expect(metricOf(second, 'purser_database_up')).toBe(1);
      expect(metricOf(second, 'purser_signer_keys', { instance: 'signer-1' })).toBe(1);
      expect(
        metricOf(second, 'purser_http_requests_total', { route: '/api/v1/transactions/:id', status: '200' }),
      ).toBeGreaterThan(0);
      // Ids, addresses and keys of payments are in no metric.
      const everything = [...second.values.keys()].join('\n');
      for (const secret of [paidId, agentId, accountId, walletId, stack.apiKey, '0x'])
        expect(everything).not.toContain(secret);
    });

    it('fire when mails are not taken and credentials are guessed', { timeout: 400_000 }, async () => {
      const asking = await newAgent();
      const rules = { threshold: '1', approvers: ['treasurer@example.com'] };
      expect((await client.post('/policies', { agent_id: asking, type: 'human_approval', rules })).status).toBe(200);
      const before = await scrape();
      await pay(asking, '5');
      const guesser = createTestClient({ ...stack, apiKey: `purser_test_${'x'.repeat(40)}` });
      for (let tries = 0; tries < 4; tries += 1) await guesser.get('/agents');
      const after = await seeing(
        (now) =>
          (metricOf(now, 'purser_activities_total', { activity: 'sendApprovalMail', outcome: 'failed' }) ?? 0) > 0 &&
          (metricOf(now, 'purser_http_requests_limited_total', { limit: 'refused_credentials' }) ?? 0) > 0,
      );
      const failed = await seeing(
        (now) =>
          (metricOf(now, 'purser_activities_total', { activity: 'sendApprovalMail', outcome: 'failed' }) ?? 0) >
          (metricOf(after, 'purser_activities_total', { activity: 'sendApprovalMail', outcome: 'failed' }) ?? 0),
      );
      await expectFiring([before, after], ['PurserCredentialsGuessed']);
      await expectFiring([after, failed], ['PurserMailsFail']);
    });

    it('fire when signers are away', { timeout: 400_000 }, async () => {
      await stack.halt('signer-1');
      await stack.halt('signer-2');
      await pay(agentId, '1');
      const unavailable = (now: Scrape) => metricOf(now, 'purser_signatures_total', { outcome: 'unavailable' }) ?? 0;
      const before = await seeing((now) => unavailable(now) > 0);
      await fetch(`${stack.baseUrl}/readyz`);
      const after = await seeing(
        (now) =>
          unavailable(now) > unavailable(before) &&
          metricOf(now, 'purser_signer_up', { party: '1' }) === 0 &&
          metricOf(now, 'purser_signer_up', { party: '2' }) === 0,
      );
      await expectFiring(
        [before, after],
        ['PurserProcessDown', 'PurserSignerDown', 'PurserTooFewSigners', 'PurserSignaturesFail', 'PurserActivityFails'],
      );
      await stack.start('signer-1');
      await stack.start('signer-2');
    });

    it('fire when the head of a chain is seen and what is in its blocks is not', { timeout: 400_000 }, async () => {
      // A payment that stays open: the chain does not know this hash.
      const { rows } = await pool.query(
        'select hash, block_number, block_hash from attempts where transaction_id = $1',
        [paidId],
      );
      await pool.query(
        `update attempts set hash = '0x' || repeat('ab', 32), block_number = null, block_hash = null, final_at = null
         where transaction_id = $1`,
        [paidId],
      );
      await pool.query(`update transactions set status = 'pending', status_detail = 'broadcast' where id = $1`, [
        paidId,
      ]);
      // Two rounds of the watcher: the second one began with the payment open, and has read the head.
      const lastRound = (now: Scrape) => metricOf(now, 'purser_watcher_last_round_timestamp_seconds') ?? 0;
      const start = await scrape();
      const first = await seeing((now) => lastRound(now) > lastRound(start));
      await seeing((now) => lastRound(now) > lastRound(first));
      proxy.set({
        answer(method, [block], answer) {
          if (method !== 'eth_getBlockByNumber' || block !== 'latest' || !('result' in answer)) return answer;
          const newest = answer.result as { number: string };
          return { result: { ...newest, number: `0x${(Number(newest.number) + 30).toString(16)}` } };
        },
      });
      const behind = (now: Scrape) => (metricOf(now, 'purser_watcher_lag_blocks', { chain }) ?? 0) >= 30;
      await expectFiring([await seeing(behind), await seeing(behind)], ['PurserWatcherBehind']);
      proxy.set({});
      await pool.query(
        `update attempts set hash = $2, block_number = $3, block_hash = $4, final_at = now() where transaction_id = $1`,
        [paidId, rows[0].hash, rows[0].block_number, rows[0].block_hash],
      );
      await pool.query(`update transactions set status = 'confirmed', status_detail = 'confirmed' where id = $1`, [
        paidId,
      ]);
    });

    it('fire when a chain cannot be reached, or is another one', { timeout: 400_000 }, async () => {
      // A payment that the watcher has to look after.
      await pool.query(`update attempts set final_at = null where transaction_id = $1`, [paidId]);
      const mark = (status: string, detail: string) =>
        pool.query('update transactions set status = $2, status_detail = $3 where id = $1', [paidId, status, detail]);
      await mark('pending', 'confirming');
      proxy.set({ status: 503 });
      const away = (now: Scrape) => metricOf(now, 'purser_rpc_requests_total', { outcome: 'down' }) ?? 0;
      const before = await seeing((now) => metricOf(now, 'purser_rpc_endpoint_healthy') === 0);
      await expectFiring(
        [before, await seeing((now) => away(now) > away(before))],
        ['PurserRpcEndpointDown', 'PurserChainUnreachable', 'PurserWatcherStopped'],
      );
      proxy.set({
        answer: (method, _params, answer) => (method === 'eth_chainId' ? { ...answer, result: '0x1' } : answer),
      });
      const wrong = (now: Scrape) => metricOf(now, 'purser_rpc_requests_total', { outcome: 'wrong_chain' }) ?? 0;
      const first = await seeing((now) => wrong(now) > 0);
      const second = await seeing((now) => wrong(now) > wrong(first));
      await expectFiring([first, second], ['PurserRpcWrongChain']);
      await mark('confirmed', 'confirmed');
      await pool.query('update attempts set final_at = now() where transaction_id = $1', [paidId]);
      proxy.set({});
    });

    it('fire when what is in the database does not move', { timeout: 400_000 }, async () => {
      // Nobody who would put it right.
      await stack.halt('temporal');
      const failures = ({ values }: Scrape) =>
        [...values].filter(([name]) => name.includes('"temporal_long_request_failure_total"'));
      const unanswered = await seeing((now) => failures(now).length > 0);
      const grown = await seeing((now) => failures(unanswered).some(([name, was]) => now.values.get(name)! > was));
      await expectFiring([unanswered, grown], ['PurserTemporalUnreachable']);
      const agent = { accountId, agentId, walletId };
      const session = await insertTestSession(pool, agent);
      const authorised = await insertTestX402(pool, { session, from: privateKeyToAddress(generatePrivateKey()) });
      const statements: [string, unknown[]][] = [
        [
          `update x402_payments set created_at = now() - interval '1 hour', status_detail = 'signing' where id = $1`,
          [authorised.id],
        ],
        [
          `insert into transactions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor, from_address, to_address, status_detail, updated_at)
         select kind.id, account_id, agent_id, wallet_id, kind.chain, token, asset, decimals, amount_minor, from_address, to_address, 'confirming', now() - interval '6 hours'
         from transactions, (values ($2, '${chain}'), ($3, '${bitcoin}')) kind (id, chain) where transactions.id = $1`,
          [paidId, ...[newId('tx'), newId('tx')]],
        ],
        [
          `insert into slots (wallet_id, chain, nonce, transaction_id, payload, created_at)
         select wallet_id, chain, 7777, id, '{}', now() - interval '6 hours' from transactions
         where chain = '${chain}' and status_detail = 'confirming' order by updated_at limit 1`,
          [],
        ],
        [`update reservations set state = 'reserved', closed_at = null where payment_id = $1`, [paidId]],
        [
          `insert into approvals (id, account_id, agent_id, payment_id, policy_id, threshold, required_approvals, approvers, expires_at, created_at)
         values ($1, $2, $3, $4, 'pol_1', '1', 1, '{a@example.com}', now() + interval '1 day', now() - interval '2 days')`,
          [newId('apr'), accountId, agentId, paidId],
        ],
        [
          `insert into approval_mails (approval_id, approver, status) select id, 'a@example.com', 'failed' from approvals where policy_id = 'pol_1'`,
          [],
        ],
        [
          `insert into webhook_deliveries (id, account_id, webhook_id, event_id, event_type, created_at, next_attempt_at)
         values ($1, $2, 'whk_1', 'evt_1', 'payment.completed', now() - interval '1 hour', now() - interval '1 hour')`,
          [newId('dlv'), accountId],
        ],
        [
          `insert into gas_levels (wallet_id, chain, balance_minor, transfer_minor, transfers_left, is_low, low_since, read_at)
         values ($1, $2, 5, 2, 2, true, now() - interval '2 hours', now() - interval '2 hours')
         on conflict (wallet_id, chain) do update set balance_minor = 5, transfers_left = 2, is_low = true, low_since = excluded.low_since, read_at = excluded.read_at`,
          [walletId, chain],
        ],
        [
          `insert into signer_alerts (id, kind, party, detail, found_at, seen_at, opened_at)
         values ($1, 'backup_missing', 3, 'test', now(), now(), now())`,
          [newId('alrt')],
        ],
        [
          `insert into freezes (id, scope, reason, frozen_by) values ($1, 'installation', 'test', 'operator')`,
          [newId('frz')],
        ],
        [`update freeze_orders set told = 0, version = (extract(epoch from now()) * 1000)::bigint - 120000`, []],
      ];
      for (const [statement, values] of statements) await pool.query(statement, values);
      // The sealer waits for this row, and so everything of the account waits for the sealer.
      const holder = await pool.connect();
      try {
        await holder.query('begin');
        await holder.query('select from audit_heads where account_id = $1 for update', [accountId]);
        await pool.query(
          `insert into audit_inbox (id, account_id, action, actor_type, resource_type, result, metadata, created_at)
         values ($1, $2, 'test', 'system', 'test', 'success', '{}', now() - interval '1 hour')`,
          [newId('aud'), accountId],
        );
        const [before, after] = [
          await seeing((now) => (metricOf(now, 'purser_audit_unsealed_oldest_seconds') ?? 0) > 3_000),
          await scrape(),
        ];
        await expectFiring(
          [before, after],
          [
            ...['PurserTransactionStuck', 'PurserBitcoinTransactionStuck', 'PurserSlotStuck', 'PurserX402Stuck'],
            ...['PurserReservationsUnmatched', 'PurserApprovalsWait', 'PurserApprovalMailsFailed'],
            ...[
              'PurserDeliveriesLate',
              'PurserWalletsLowOnGas',
              'PurserGasUnread',
              'PurserSignerAlert',
              'PurserFrozen',
            ],
            ...['PurserFreezeUntold', 'PurserAuditUnsealed'],
          ],
        );
        expect(metricOf(after, 'purser_wallet_gas_transfers_left', { wallet: walletId })).toBe(2);
      } finally {
        await holder.query('rollback');
        holder.release();
      }
    });

    it('fire for parts that are slow, banned, without a backup or full', { timeout: 400_000 }, async () => {
      const single = createPool({ url: stack.databaseUrl, max: 1, application: 'alerts test' });
      measurePool(single, parts);
      const lent = await single.connect();
      // Doubles of what cannot be had on demand: a slow signature, a receipt that is forged, an endpoint that hangs.
      const outcomes = [
        () => delay(3_500),
        () => Promise.reject(new SignRefused({ reason: 'receipt_invalid', message: 'forged' })),
      ];
      const double = { sign: () => outcomes.shift()!() } as unknown as SignerClient;
      const signer = measureSigners(parts).wrap(double);
      const { measureRequest } = createRequestMeasures(parts);
      const slow = createServer((request, response) =>
        measureRequest(request as never, response as never, () => void delay(5_500).then(() => response.end())),
      );
      await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve));
      const { context } = hosted.signer(3);
      const backup = { file: '', bytes: 0, currentAtMs: Date.now() - 3_600_000, error: 'no room on the disk' };
      measureSigner({ ...context, backup: { ...context.backup, status: () => backup } }, signerParts);
      const { port } = slow.address() as AddressInfo;
      await fetch(`http://127.0.0.1:${port}/`);
      // A double of the SDK's buffer: no history is at hand that its code does not fit, nor a queue that nobody serves.
      const told: BufferedMetricUpdate[] = [];
      const buffer = { retrieveUpdates: () => told.splice(0).values() };
      measureTemporal({ buffer, registry: parts, log: createLogger({ process: 'test', level: 'silent' }) });
      /** @param times as often as it was called by then */
      const tell = (times: number) => {
        const attributes = { task_queue: 'test', workflow_type: 'test', failure_reason: 'NonDeterminismError' };
        const update = (name: string, value: number) =>
          told.push({ metric: { name }, value, attributes } as unknown as BufferedMetricUpdate);
        update('temporal_workflow_task_schedule_to_start_latency', 40);
        for (const name of ['workflow_failed', 'sticky_cache_miss', 'request_failure']) update(`temporal_${name}`, 1);
        update('temporal_workflow_task_execution_failed', 1);
        const labels = { workflow_type: 'test' };
        return seeing((now) => metricOf(now, 'temporal_workflow_task_execution_failed_total', labels) === times);
      };
      const before = await tell(1);
      context.store.ban({ keyId: 'key_1', party: 1, reason: 'test' });
      await Promise.allSettled([
        signer.sign({} as never),
        signer.sign({} as never),
        fetch(`http://127.0.0.1:${port}/`),
      ]);
      await tell(2);
      // Given up after some seconds, which a look may take: what counts is that it waits when the pool is looked at.
      const waiting = single.query('select 1').catch(() => {});
      const after = await scrape();
      lent.release();
      await waiting;
      await single.end();
      slow.close();
      await expectFiring(
        [before, after],
        [
          ...['PurserDatabasePoolExhausted', 'PurserSignaturesSlow', 'PurserSignaturesRefused', 'PurserHttpSlow'],
          ...['PurserSignerBan', 'PurserSignerBackupOld', 'PurserWorkflowTasksFail', 'PurserTasksWait'],
        ],
      );
    });

    it('fire when the database or the workers are away', { timeout: 400_000 }, async () => {
      await stack.halt('postgres');
      const failing = (now: Scrape) =>
        [...now.values].filter(([name]) => name.includes('purser_http_requests_total') && /"status","5\d\d"/.test(name))
          .length;
      const before = await eventually(
        async () => {
          await client.get('/agents');
          return scrape();
        },
        (now) => failing(now) > 0 && metricOf(now, 'purser_database_up') === 0,
        { timeoutMs: freshWithinMs },
      );
      await client.get('/agents');
      await expectFiring([before, await scrape()], ['PurserDatabaseDown', 'PurserHttpErrors']);
      await stack.halt('worker');
      const gone = await scrape();
      await expectFiring([gone, await scrape()], ['PurserNoWalletWorker']);
      await stack.start('postgres');
    });

    it('have all fired, and every metric that they and the dashboard name was seen', () => {
      expect(rules.map(({ alert }) => alert).filter((alert) => !fired.has(alert))).toEqual([]);
      const names = new Set(
        seen
          .flatMap(({ values }) => [...values.keys()])
          .map((series) => Object.fromEntries(JSON.parse(series)).__name__),
      );
      const named = [...rules.map(({ expr }) => expr), ...readDashboardExpressions()].flatMap(metricsIn);
      expect([...new Set(named)].filter((name) => !names.has(name))).toEqual([]);
    });
  },
);
