import { context, propagation, trace } from '@opentelemetry/api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readTraceParent } from '../../shared/domain/trace-parent.ts';
import { createLogger } from '../../shared/log.ts';
import type { EndedRun } from '../../shared/temporal-headers.ts';
import { openTracing } from '../../shared/tracing/open-tracing.ts';
import type { RequestSpan, Tracing } from '../../shared/tracing/tracing.ts';
import { eventually } from '../support/client.ts';
import { type OtlpReceiverDouble, startOtlpReceiverDouble } from '../support/otlp-receiver-double.ts';

const soon = { timeoutMs: 60_000 };
/** What may wait to be sent, and what is on its way. */
const heldAtMost = 4_096 + 512;
const stoppedWithinMs = 8_000;

let collector: OtlpReceiverDouble;
let lines: string[];
let tracing: Tracing | undefined;

beforeEach(async () => {
  collector = await startOtlpReceiverDouble();
  lines = [];
});
afterEach(async () => {
  await tracing?.stop();
  tracing = undefined;
  for (const each of [trace, context, propagation]) each.disable();
  await collector.stop();
});

async function open({ ratio = 1, endpoint = collector.url } = {}): Promise<Tracing> {
  const log = createLogger({ process: 'test', write: (line) => lines.push(line) });
  tracing = await openTracing({ endpoint, ratio }, { service: 'purser-test', environment: 'sandbox', log });
  return tracing!;
}
const request = ({ startRequest }: Tracing, claimed?: string) =>
  startRequest({ name: 'GET', attributes: { request_id: 'r1' }, claimed });
const end = (span: RequestSpan) => span.end({ name: 'GET /x', attributes: { status: 200 }, failed: false });
/** Does something within a request. */
const within = <T>(span: RequestSpan, work: () => Promise<T>) =>
  new Promise<T>((resolve, reject) => span.run(() => work().then(resolve, reject)));

describe('a trace', () => {
  it('holds nothing that is secret, also where a library repeats what it was given', async () => {
    const { startRequest, callSigner } = await open();
    const secrets = ['mYkEy0123', 'purser_test_3fGh3fGh3fGh3fGh3fGh3fGh', 'hunter2'];
    const message = `https://node.example.com/v2/${secrets[0]}?x for ${secrets[1]} of postgres://u:${secrets[2]}@db/x`;
    const span = startRequest({ name: 'GET', attributes: { detail: message }, claimed: undefined });
    await within(span, () =>
      callSigner({ party: 1, path: '/v1/x' }, () => Promise.reject(new Error(message))).catch(() => undefined),
    );
    end(span);
    await eventually(
      async () => collector.spans.length,
      (count) => count === 2,
      soon,
    );
    for (const secret of secrets) expect(collector.text()).not.toContain(secret);
    expect(collector.text()).toContain('node.example.com');
  });

  it('is kept or not as a whole, by the share that is wanted', async () => {
    const opened = await open({ ratio: 0 });
    const span = request(opened);
    const told = await within(span, () =>
      opened.callSigner({ party: 2, path: '/v1/x' }, async (call) => call!.traceparent),
    );
    end(span);
    expect(readTraceParent(told)).toMatchObject({ traceId: span.traceId, isSampled: false });
    opened.noteRun({ ...run, parent: told });
    await opened.stop();
    expect(collector.spans).toEqual([]);
  });

  it('is not decided by what a client claims', async () => {
    const opened = await open({ ratio: 0 });
    const claimed = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    const span = request(opened, claimed);
    expect(span.traceId).not.toBe('a'.repeat(32));
    end(span);
    await opened.stop();
    expect(collector.spans).toEqual([]);
  });

  it('has the span of a run under the id that was handed on before it ended', async () => {
    const opened = await open();
    const parent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    opened.noteRun({ ...run, parent });
    end(request(opened));
    await opened.stop();
    expect(collector.spans).toHaveLength(2);
    const [noted, other] = collector.spans;
    expect(noted).toMatchObject({
      ...{ name: 'RunWorkflow:transaction', spanId: run.spanId, traceId: 'a'.repeat(32) },
      ...{ parentSpanId: 'b'.repeat(16), startNs: BigInt(run.startMs) * 1_000_000n },
    });
    expect(other!.spanId).not.toBe(run.spanId);
  });

  it('has what a signer says of its time within the call, whatever it says', async () => {
    const opened = await open();
    for (const durationMs of [0, 0.25, 1e9]) {
      const span = request(opened);
      await within(span, () =>
        opened.callSigner({ party: 3, path: '/v1/x' }, async (call) => call!.served(durationMs)),
      );
      end(span);
    }
    await opened.stop();
    const served = collector.spans.filter(({ service }) => service === 'purser-signer-3');
    expect(served).toHaveLength(3);
    for (const { startNs, endNs, parentSpanId } of served) {
      const call = collector.spans.find(({ spanId }) => spanId === parentSpanId)!;
      expect(endNs >= startNs).toBe(true);
      // Spans of now have milliseconds.
      expect(endNs - startNs <= call.endNs - call.startNs + 1_000_000n).toBe(true);
    }
  });

  it('costs bounded memory and no time while its receiver hangs, and little time at the end', async () => {
    const hanging = Promise.withResolvers<void>();
    collector.held = hanging.promise;
    const opened = await open();
    const startedMs = performance.now();
    for (let count = 0; count < 20_000; count += 1) end(request(opened));
    expect(performance.now() - startedMs).toBeLessThan(30_000);
    const stoppedMs = performance.now();
    await opened.stop();
    expect(performance.now() - stoppedMs).toBeLessThan(stoppedWithinMs);
    hanging.resolve();
    await eventually(
      async () => collector.spans.length,
      (count) => count > 0,
      soon,
    );
    expect(collector.spans.length).toBeLessThanOrEqual(heldAtMost);
  });

  it('goes nowhere, with one word of warning, where nobody listens', async () => {
    const opened = await open({ endpoint: 'http://127.0.0.1:1' });
    end(request(opened));
    await eventually(
      async () => lines.length,
      (count) => count > 0,
      soon,
    );
    end(request(opened));
    await opened.stop();
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0]!)).toMatchObject({ level: 40, msg: expect.stringContaining('traces cannot be sent') });
  });
});

const run: Omit<EndedRun, 'parent'> = {
  ...{ workflowType: 'transaction', workflowId: 'tx_1', runId: 'r', spanId: 'c'.repeat(16), outcome: 'completed' },
  ...{ startMs: 1_700_000_000_000, endMs: 1_700_000_005_000 },
};
