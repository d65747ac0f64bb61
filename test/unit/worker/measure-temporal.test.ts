import type { BufferedMetricUpdate } from '@temporalio/worker';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Logger } from '../../../shared/log.ts';
import { measureTemporal } from '../../../worker/measure-temporal.ts';

/** A double of the SDK's buffer: what it gives is written by the test. */
function double() {
  const said: (readonly BufferedMetricUpdate[] | Error)[] = [];
  return {
    say: (...next: (readonly BufferedMetricUpdate[] | Error)[]) => void said.push(...next),
    retrieveUpdates() {
      const next = said.shift() ?? [];
      if (next instanceof Error) throw next;
      return next.values() as ArrayIterator<BufferedMetricUpdate>;
    },
  };
}
const update = (name: string, value: number, attributes: Record<string, string | boolean> = {}) =>
  ({ metric: { name }, value, attributes }) as unknown as BufferedMetricUpdate;

describe('metrics of the Temporal SDK', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('are added up, set or counted as the SDK means them, and no others are shown', async () => {
    const [buffer, registry] = [double(), new Registry()];
    measureTemporal({ buffer, registry, log: {} as Logger });
    const queue = { namespace: 'default', service_name: 'temporal-core-sdk', task_queue: 'wallet' };
    buffer.say(
      [
        update('temporal_sticky_cache_size', 3, queue),
        update('temporal_workflow_failed', 1, { ...queue, workflow_type: 'pay' }),
        update('temporal_activity_schedule_to_start_latency', 0.3, queue),
      ],
      [
        update('temporal_sticky_cache_size', 2, queue),
        update('temporal_workflow_failed', 2, { ...queue, workflow_type: 'pay' }),
        update('temporal_activity_schedule_to_start_latency', 7, queue),
        update('of_somebody_else', 1, queue),
      ],
    );
    await vi.advanceTimersByTimeAsync(1_000);
    const text = await registry.metrics();
    expect(text).toContain('temporal_sticky_cache_size{task_queue="wallet"} 2\n');
    expect(text).toContain('temporal_workflow_failed_total{task_queue="wallet",workflow_type="pay"} 3\n');
    expect(text).toContain('schedule_to_start_latency_seconds_bucket{le="0.5",task_queue="wallet"} 1\n');
    expect(text).toContain('schedule_to_start_latency_seconds_sum{task_queue="wallet"} 7.3\n');
    expect(text).not.toContain('of_somebody_else');
    expect(text).not.toContain('temporal-core-sdk');
  });

  it('that cannot be fetched end nothing, and are told of once', async () => {
    const [buffer, registry] = [double(), new Registry()];
    const warn = vi.fn();
    measureTemporal({ buffer, registry, log: { warn } as unknown as Logger });
    const fault = new Error('the buffer was full');
    buffer.say(fault, fault, [update('temporal_sticky_cache_size', 4, { task_queue: 'wallet' })]);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(warn).toHaveBeenCalledTimes(1);
    expect(await registry.metrics()).toContain('temporal_sticky_cache_size{task_queue="wallet"} 4\n');
  });
});
