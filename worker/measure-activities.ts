import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { Counter, Histogram, type Registry } from 'prom-client';

/** From one statement to a key generation; seconds. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];

/** Registers how the activities of a worker do, attempt by attempt. Their names are a closed list. */
export function measureActivities(registry: Registry): ActivityInterceptorsFactory {
  const registers = [registry];
  const attempts = new Counter({
    name: 'purser_activities_total',
    help: 'Attempts of activities, by outcome: ok, refused (a repeat would change nothing), failed (is repeated), cancelled.',
    labelNames: ['activity', 'queue', 'outcome'],
    registers,
  });
  const durations = new Histogram({
    name: 'purser_activity_duration_seconds',
    help: 'How long attempts of activities took, whatever came of them.',
    labelNames: ['activity'],
    buckets: durationBuckets,
    registers,
  });
  return ({ info: { activityType: activity, taskQueue: queue } }) => ({
    inbound: {
      async execute(input, next) {
        const startedMs = performance.now();
        let outcome = 'ok';
        try {
          return await next(input);
        } catch (error) {
          outcome = outcomeOf(error);
          throw error;
        } finally {
          attempts.inc({ activity, queue, outcome });
          durations.observe({ activity }, (performance.now() - startedMs) / 1000);
        }
      },
    },
  });
}

function outcomeOf(error: unknown): 'refused' | 'failed' | 'cancelled' {
  if (error instanceof CancelledFailure) return 'cancelled';
  return error instanceof ApplicationFailure && error.nonRetryable ? 'refused' : 'failed';
}
