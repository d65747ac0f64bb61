import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { logSubject } from '../../shared/domain/log-subject.ts';
import { readTraceParent, writeTraceParent } from '../../shared/domain/trace-parent.ts';
import { newId } from '../../shared/ids.ts';
import { createLogger } from '../../shared/log.ts';
import { logFields, noteInLog, withLogFields } from '../../shared/log-context.ts';
import { createTemporalLogger } from '../../worker/temporal-logger.ts';

const createLog = () => {
  const lines: Record<string, unknown>[] = [];
  const log = createLogger({ process: 'test', level: 'trace', write: (line) => lines.push(JSON.parse(line)) });
  return { log, lines };
};

describe('a line of the log', () => {
  it('carries the ids of what it is about, however deep and late it is written', async () => {
    const { log, lines } = createLog();
    await withLogFields({ request_id: 'r1' }, async () => {
      await delay(1);
      noteInLog({ transaction_id: 'tx_1' });
      await Promise.all([1, 2].map((n) => withLogFields({ attempt: n }, async () => log.info({ n }, 'inner'))));
      log.child({ account_id: 'acct_1' }).warn('outer');
    });
    log.info('outside');
    const ids = { request_id: 'r1', transaction_id: 'tx_1' };
    expect(lines).toMatchObject([
      { ...ids, attempt: 1, n: 1 },
      { ...ids, attempt: 2, n: 2 },
      { ...ids, account_id: 'acct_1' },
      { msg: 'outside' },
    ]);
    expect(lines[2]).not.toHaveProperty('attempt');
    expect(lines[3]).not.toHaveProperty('request_id');
  });

  it('wins where it names the same itself, and says each name once', () => {
    const lines: string[] = [];
    const log = createLogger({ process: 'test', write: (line) => lines.push(line) });
    const fields = { transaction_id: 'tx_of_the_run' };
    withLogFields(fields, () => {
      log.info({ transaction_id: 'tx_of_the_line' }, 'x');
      expect(logFields()).toEqual(fields);
    });
    expect(lines[0]!.match(/transaction_id/g)).toHaveLength(1);
    expect(JSON.parse(lines[0]!)).toMatchObject({ transaction_id: 'tx_of_the_line' });
  });

  it('does not mix what goes on at the same time', async () => {
    const { log, lines } = createLog();
    await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        withLogFields({ request_id: `r${n}` }, async () => {
          await delay(n % 3);
          log.info({ n }, 'x');
        }),
      ),
    );
    for (const line of lines) expect(line.request_id).toBe(`r${line.n}`);
  });
});

describe('what a line is about', () => {
  it.each([
    ['tx', 'transaction_id'],
    ['led', 'ledger_id'],
    ['sess', 'session_id'],
    ['dlv', 'delivery_id'],
    ['apr', 'approval_id'],
    ['acct', 'account_id'],
  ] as const)('is found by the prefix %s: %s', (prefix, name) => {
    const id = newId(prefix);
    for (const text of [id, `approval-mail/${id}`, `/api/v1/things/${id}`, `/api/v1/things/${id}/cancel`])
      expect(logSubject(text)).toEqual({ [name]: id });
  });

  it.each(['', 'reconcile', '/api/v1/transactions', 'tx_short', `${newId('tx')}x`, newId('agent')])(
    'is nothing of ours: %s',
    (text) => expect(logSubject(text)).toEqual({}),
  );
});

describe('a traceparent', () => {
  it('is read as it was written', () => {
    const hex = (length: number) =>
      fc
        .string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: length, maxLength: length })
        .filter((text) => /[^0]/.test(text));
    fc.assert(
      fc.property(fc.record({ traceId: hex(32), spanId: hex(16), isSampled: fc.boolean() }), (given) => {
        expect(readTraceParent(writeTraceParent(given))).toEqual(given);
      }),
    );
  });

  it('says nothing where it is anything else, whoever sends it', () => {
    const good = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    expect(readTraceParent(good)).toBeDefined();
    for (const bad of [undefined, '', [good], `${good}\n`, good.toUpperCase(), good.replace('a', '0x'), `x${good}`])
      expect(readTraceParent(bad)).toBeUndefined();
    expect(readTraceParent(`00-${'0'.repeat(32)}-${'b'.repeat(16)}-01`)).toBeUndefined();
    expect(readTraceParent(`00-${'a'.repeat(32)}-${'0'.repeat(16)}-01`)).toBeUndefined();
    fc.assert(fc.property(fc.string(), (text) => readTraceParent(text) === undefined));
  });
});

describe('what the SDK of Temporal logs', () => {
  it('names the payment of its workflow', () => {
    const { log, lines } = createLog();
    const workflowId = newId('tx');
    createTemporalLogger(log).warn('Activity failed', { workflowId, activityType: 'sign', attempt: 1 });
    expect(lines).toMatchObject([{ transaction_id: workflowId, level: 40 }]);
  });

  it('complains of a failing activity once, and of its repeats in debug', () => {
    const { log, lines } = createLog();
    const temporal = createTemporalLogger(log);
    const meta = { workflowId: newId('tx'), activityType: 'sign', activityId: '7', error: new Error('away') };
    for (const attempt of [1, 2, 3]) temporal.warn('Activity failed', { ...meta, attempt });
    expect(lines.map(({ level }) => level)).toEqual([40, 20, 20]);
  });

  it('says what does not change once, and how often it was said when it is said again', () => {
    const { log, lines } = createLog();
    let nowMs = 1_000;
    const temporal = createTemporalLogger(log, { now: () => nowMs });
    const poll = () => temporal.warn('gRPC call poll_workflow_task_queue retried 5 times', { sdkComponent: 'core' });
    for (let count = 0; count < 100; count += 1) {
      nowMs += 1_000;
      poll();
    }
    expect(lines).toHaveLength(1);
    temporal.warn('something else', { sdkComponent: 'core' });
    expect(lines).toHaveLength(2);
    nowMs += 10 * 60_000;
    poll();
    expect(lines[2]).toMatchObject({ repeated: 99 });
  });

  it('is no complaint when a worker that stops asks for no more', () => {
    const { log, lines } = createLog();
    const error = new DOMException('The slot is not needed any more.', 'AbortError');
    createTemporalLogger(log).error('Error in custom slot supplier `reserveSlot`', { error });
    createTemporalLogger(log).error('Error in custom slot supplier `reserveSlot`', { error: new Error('broken') });
    expect(lines.map(({ level }) => level)).toEqual([20, 50]);
  });
});
