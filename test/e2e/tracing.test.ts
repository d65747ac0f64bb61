import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import {
  type OtlpReceiverDouble,
  type ReceivedSpan,
  startOtlpReceiverDouble,
} from '../support/otlp-receiver-double.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';
import { secretsIn } from '../support/secrets.ts';

const chain = 'eip155:31337';
const soon = { timeoutMs: 180_000 };
const payments = 20;
/** The activities of a payment, in their order. */
const steps = ['evaluatePolicy', 'prepare', 'allot', 'sign', 'broadcast', 'settle'];
/** A process that is slow complains of it, and rightly: quiet is promised where nothing is wrong. */
const retry = 3;
/** By pino's numbers. */
const levels = { info: 30, warn: 40 };

let collector: OtlpReceiverDouble;
let stack: OwnStack;
let client: TestClient;
let agentId: string;

beforeAll(async () => {
  collector = await startOtlpReceiverDouble();
  // At the level that is the default.
  stack = await startOwnStack({
    decides: true,
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, PURSER_LOG_LEVEL: 'info' },
  });
  client = createTestClient(stack);
  agentId = (await client.post('/agents', { agent_name: 'buyer', chain })).body.id;
});
afterAll(async () => {
  const leaked = secretsIn(collector.text());
  await collector.stop();
  await stack?.stop();
  expect(leaked).toEqual([]);
});

async function pay(headers: Record<string, string> = {}, by = agentId): Promise<{ id: string }> {
  const answer = await fetch(`${stack.baseUrl}/api/v1/transactions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': stack.apiKey, ...headers },
    body: JSON.stringify({
      ...{ agent_id: by, direction: 'outbound', type: 'transfer', chain, token: 'USDC', amount: '7.654321' },
      to_address: privateKeyToAddress(generatePrivateKey()),
    }),
  });
  expect(answer.status).toBe(200);
  return (await answer.json()) as { id: string };
}
const ended = (id: string) =>
  eventually(
    () => client.get(`/transactions/${id}`),
    ({ body }) => body.status === 'confirmed',
    soon,
  );
type Line = Record<string, unknown> & { level: number; msg: string };
const linesOf = (name: string): Line[] =>
  readFileSync(join(stack.logDir, `${name}.log`), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line);
const processes = ['api', 'worker', 'signer-1', 'signer-2', 'signer-3'];

describe('a payment', () => {
  it('is one trace, from its request through workflow and activities to the signers and its end', async () => {
    const claimed = randomBytes(16).toString('hex');
    const traceparent = `00-${claimed}-${randomBytes(8).toString('hex')}-01`;
    const expected = [
      'POST /api/v1/transactions',
      'RunWorkflow:transaction',
      ...steps.map((step) => `RunActivity:${step}`),
    ];
    const { id } = await pay({ 'x-request-id': 'my-request', traceparent });
    await ended(id);
    const spans = await eventually(
      async () => {
        const run = collector.spans.find(
          ({ name, attributes }) => name === 'RunWorkflow:transaction' && attributes['purser.workflow_id'] === id,
        );
        return collector.spans.filter(({ traceId }) => traceId === run?.traceId);
      },
      // Spans come in batches, of each process by itself.
      (found) => expected.every((name) => named(found, name).length > 0) && withoutPlace(found).length === 0,
      soon,
    );
    const request = only(spans, 'POST /api/v1/transactions');
    expect(request).toMatchObject({ service: 'purser-api', parentSpanId: '', links: [claimed] });
    expect(request.attributes).toMatchObject({
      ...{ 'purser.transaction_id': id, 'purser.request_id': 'my-request', 'purser.agent_id': agentId },
      ...{ 'purser.chain': chain, 'http.response.status_code': '200', 'http.route': '/api/v1/transactions' },
    });
    const start = only(spans, 'UpdateWithStartWorkflow:policyDecision');
    expect(start.parentSpanId).toBe(request.spanId);
    const run = only(spans, 'RunWorkflow:transaction');
    expect(run).toMatchObject({ service: 'purser-worker', parentSpanId: start.spanId });
    expect(run.attributes).toMatchObject({
      ...{ 'purser.workflow_id': id, 'purser.outcome': 'completed' },
      ...{ 'purser.agent_id': agentId, 'purser.chain': chain },
    });
    for (const step of steps) {
      const [activity] = named(spans, `RunActivity:${step}`);
      expect(activity, step).toMatchObject({ service: 'purser-worker', parentSpanId: run.spanId });
      expect(activity!.attributes['purser.transaction_id']).toBe(id);
    }
    const [sign] = named(spans, 'RunActivity:sign');
    const calls = spans.filter(({ name }) => /^signer \d \/v1\/sign\/(start|join|step)$/.test(name));
    for (const call of calls) expect(call.parentSpanId).toBe(sign!.spanId);
    // One that is asked in place of another that is slow may be given up, and tells nothing then.
    const answered = calls.flatMap((call) =>
      spans.filter(({ parentSpanId }) => parentSpanId === call.spanId).map((served) => ({ call, served })),
    );
    expect(answered.length).toBeGreaterThanOrEqual(4);
    for (const { call, served } of answered) {
      expect(served.service).toBe(`purser-signer-${call.attributes['purser.signer']}`);
      expect(served.name).toBe(call.attributes['url.path']);
      expect(served.endNs >= served.startNs && served.endNs <= call.endNs).toBe(true);
    }
    // Every span has its place in the tree.
    expect(withoutPlace(spans)).toEqual([]);
    const text = JSON.stringify(spans, (_name, value) => (typeof value === 'bigint' ? String(value) : value));
    expect(text).not.toMatch(/7[.]?654321|0x[0-9a-f]{40}/i);
  });

  it('is one trace also when it waits for a person, and its worker is killed meanwhile', async () => {
    const { id: waitingAgent } = (await client.post('/agents', { agent_name: 'careful buyer', chain })).body;
    const rules = { threshold: '1', approvers: ['treasurer@example.com'] };
    await client.post('/policies', { agent_id: waitingAgent, type: 'human_approval', rules });
    const { id } = await pay({ 'x-request-id': 'waits' }, waitingAgent);
    const asked = await eventually(
      () => client.get(`/transactions/${id}`),
      ({ body }) => body.status_detail === 'awaiting_approval',
      soon,
    );
    const request = await eventually(
      async () => collector.spans.find(({ attributes }) => attributes['purser.request_id'] === 'waits'),
      (span) => span !== undefined,
      soon,
    );
    process.kill(stack.pid('worker'), 'SIGKILL');
    const decided = await fetch(`${stack.baseUrl}/api/v1/approvals/${asked.body.approval.id}/approve`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${await stack.token('treasurer@example.com')}`,
        'content-type': 'application/json',
      },
      body: '{}',
    });
    expect(decided.status).toBe(200);
    await ended(id);
    const ofPayment = await eventually(
      async () =>
        collector.spans.filter(
          ({ service, attributes }) => service === 'purser-worker' && idsOf(attributes).includes(id),
        ),
      (found) => named(found, 'RunWorkflow:transaction').length > 0,
      soon,
    );
    only(ofPayment, 'RunWorkflow:transaction');
    expect(named(ofPayment, 'RunActivity:sign').length).toBeGreaterThan(0);
    for (const span of ofPayment) expect(span.traceId, span.name).toBe(request!.traceId);
  });

  it('has its ids in every line that concerns it', async () => {
    const requestId = `request-${randomBytes(4).toString('hex')}`;
    const { id } = await pay({ 'x-request-id': requestId });
    await ended(id);
    const [line] = linesOf('api').filter(({ request_id: each }) => each === requestId);
    expect(line).toMatchObject({ msg: 'request', method: 'POST', transaction_id: id, agent_id: agentId });
    expect(line!.trace_id).toMatch(/^[0-9a-f]{32}$/);
    const looked = linesOf('api').filter(({ path }) => path === `/api/v1/transactions/${id}`);
    expect(looked.length).toBeGreaterThan(0);
    for (const each of looked) expect(each.transaction_id).toBe(id);
    // Whichever process writes an id of a payment into a line names it as such.
    for (const each of processes.flatMap(linesOf))
      for (const [found] of JSON.stringify(each).matchAll(/\btx_[0-9a-z]{26}\b/g))
        expect(each.transaction_id, JSON.stringify(each)).toBe(found);
  });

  it('makes one line, that of its request, while all is well', { retry }, async () => {
    const before = new Map(processes.map((name) => [name, linesOf(name).length]));
    const since = (name: string) => linesOf(name).slice(before.get(name));
    const ids: string[] = [];
    for (let count = 0; count < payments; count += 1) ids.push((await pay()).id);
    for (const id of ids) await ended(id);
    const lines = new Map(processes.map((name) => [name, since(name)]));
    for (const [name, all] of lines)
      expect(
        all.filter(({ level }) => level > levels.info),
        name,
      ).toEqual([]);
    expect(lines.get('api')!.filter(({ method }) => method === 'POST')).toHaveLength(payments);
    expect(lines.get('api')!.filter(({ msg }) => msg !== 'request')).toEqual([]);
    for (const name of processes.slice(1)) expect(lines.get(name), name).toEqual([]);
  });

  it('does not wait for a receiver of traces that is away, which is told of once', async () => {
    collector.isAway = true;
    const before = new Map(['api', 'worker'].map((name) => [name, linesOf(name).length]));
    const since = (name: string) => linesOf(name).slice(before.get(name));
    const warned = (name: string) => since(name).filter(({ msg }) => msg.startsWith('traces cannot be sent'));
    for (const name of ['api', 'worker', 'api']) {
      const refusedBefore = collector.refused;
      await ended((await pay()).id);
      await eventually(
        async () => [collector.refused, warned(name).length] as const,
        ([refused, warnings]) => refused > refusedBefore && warnings > 0,
        soon,
      );
    }
    collector.isAway = false;
    await ended((await pay()).id);
    for (const name of ['api', 'worker'])
      await eventually(
        async () => since(name).filter(({ msg }) => msg === 'traces are sent again').length,
        (count) => count === 1,
        soon,
      );
    for (const name of ['api', 'worker']) expect(warned(name), name).toHaveLength(1);
  });
});

describe('a service that is away', () => {
  it('is told of when it goes, not at every try', async () => {
    const before = new Map(['api', 'worker'].map((name) => [name, linesOf(name).length]));
    const troubles = (name: string) =>
      linesOf(name)
        .slice(before.get(name))
        .filter(({ level }) => level >= levels.warn);
    await stack.halt('temporal');
    await eventually(
      async () => troubles('worker').length,
      (count) => count > 0,
      soon,
    );
    const { id } = await pay();
    await stack.start('temporal');
    await ended(id);
    const words = troubles('worker').map(({ level, msg }) => `${level} ${msg.replaceAll(/\d+/g, '#')}`);
    expect(words.toSorted()).toEqual([...new Set(words)].toSorted());
    // Of the payment that could not be begun at once, and of nothing else.
    for (const line of troubles('api')) expect(line.transaction_id, JSON.stringify(line)).toBe(id);
    // Whoever begins a payment begins its trace, if no request could.
    await eventually(
      async () =>
        collector.spans.find(
          ({ name, attributes }) => name.startsWith('RunWorkflow:') && idsOf(attributes).includes(id),
        ),
      (span) => span !== undefined,
      soon,
    );
    // All that the worker wrote is JSON.
    const text = readFileSync(join(stack.logDir, 'worker.log'), 'utf8');
    expect(text.split('\n').filter((line) => line !== '' && !line.startsWith('{'))).toEqual([]);
  });
});

describe('a worker that is told to stop', () => {
  it('says so, and complains of nothing', async () => {
    const before = linesOf('worker').length;
    await stack.halt('worker');
    const lines = linesOf('worker').slice(before);
    expect(lines.filter(({ level }) => level > levels.info)).toEqual([]);
    expect(lines.map(({ msg }) => msg)).toEqual(expect.arrayContaining(['stopping', 'stopped']));
    expect(lines.length).toBeLessThan(30);
    await stack.start('worker');
    await ended((await pay()).id);
  });
});

const idsOf = (attributes: ReceivedSpan['attributes']) => [
  attributes['purser.transaction_id'],
  attributes['purser.workflow_id'],
];
/** Whose parent is not among them. */
const withoutPlace = (spans: readonly ReceivedSpan[]) => {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  return spans.filter(({ parentSpanId }) => parentSpanId && !ids.has(parentSpanId));
};
const named = (spans: readonly ReceivedSpan[], name: string) => spans.filter((span) => span.name === name);
function only(spans: readonly ReceivedSpan[], name: string): ReceivedSpan {
  const found = named(spans, name);
  expect(found, name).toHaveLength(1);
  return found[0]!;
}
