import { expect, it } from 'vitest';
import { describeMonths } from '../../../shared/domain/months.ts';

it('a run that found nothing to do says so', () => {
  expect(describeMonths({ made: [], dropped: [], staying: [], misplaced: [] })).toBe(
    'Every month has its place, and none is too old.',
  );
});

it('a run says which months it made and dropped, and what it cannot mend', () => {
  const words = describeMonths({
    made: ['events_2027_02', 'audit_logs_2027_02'],
    dropped: ['events_2025_10'],
    staying: ['webhook_deliveries_2025_10 stays: deliveries of it are under way'],
    misplaced: [{ table: 'events', month: '2026-03', count: 12 }],
  });
  expect(words).toBe(
    'Made events_2027_02, audit_logs_2027_02.\nDropped events_2025_10.\n' +
      'webhook_deliveries_2025_10 stays: deliveries of it are under way.\n' +
      '12 rows of events of 2026-03 lie in events_other and will not be dropped.',
  );
});
