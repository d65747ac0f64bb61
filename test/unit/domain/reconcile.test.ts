import { expect, it } from 'vitest';
import { describeReconcile, type ReconcileResult } from '../../../shared/domain/reconcile.ts';

const quiet: ReconcileResult = {
  ...{ visited: 7, started: 0, reminded: 0, nudged: 0, failing: 0, unwatched: [], expiredKeys: 0 },
  repaired: { reservations: 0, holds: 0, approvals: 0 },
};

it('a run that found nothing to do says no more than where it looked', () => {
  expect(describeReconcile(quiet)).toBe('Looked at 7 open payments, sessions and deliveries.');
});

it('a run says in words what it did, and what it cannot mend', () => {
  const words = describeReconcile({
    ...{ visited: 9, started: 1, reminded: 2, nudged: 3, failing: 1, expiredKeys: 40 },
    repaired: { reservations: 4, holds: 5, approvals: 6 },
    unwatched: [
      { chain: 'eip155:1', payments: 8, seen_at: '2026-01-02T03:04:05.678Z' },
      { chain: 'eip155:56', payments: 1, seen_at: null },
    ],
  });
  expect(words).toBe(
    'Looked at 9 open payments, sessions and deliveries. Started 1 missing workflows. Had 2 look again for an answer or a wish. ' +
      "Nudged 3 that made no progress. 1 of them fail again and again at the same step: see the worker's log. " +
      'Gave back 4 reservations of ended payments. Gave back 5 holds of ended payments. ' +
      'Withdrew 6 questions about ended payments. ' +
      'Nobody watches eip155:1, where 8 payments wait: its last block was seen at 2026-01-02T03:04:05.678Z. ' +
      'Nobody watches eip155:56, where 1 payments wait: no block of it was ever seen. ' +
      'Deleted 40 expired idempotency keys.',
  );
});
