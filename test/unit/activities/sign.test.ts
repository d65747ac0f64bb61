import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { describe, expect, it } from 'vitest';
import { withSigners } from '../../../activities/sign.ts';
import { SignRefused } from '../../../signer/errors.ts';

const refused = (reason: 'frozen' | 'slot_taken') => async () => {
  throw new SignRefused({ reason, message: `refused as ${reason}` });
};
const outcome = (work: () => Promise<never>, asker: { knowsFreezes?: boolean }) =>
  new MockActivityEnvironment().run(() => withSigners(work, asker)).catch((error: unknown) => error);

describe('a signature that signers refuse', () => {
  it.each(['frozen', 'slot_taken'] as const)(
    'is refused for good to a workflow that knows of freezes: %s',
    async (reason) => {
      const error = await outcome(refused(reason), { knowsFreezes: true });
      expect(error).toBeInstanceOf(ApplicationFailure);
      expect(error).toMatchObject({ type: 'SignRefused', nonRetryable: true, details: [reason] });
    },
  );

  it('is asked for again for one that does not, as long as it is only frozen', async () => {
    expect(await outcome(refused('frozen'), {})).not.toBeInstanceOf(ApplicationFailure);
    expect(await outcome(refused('slot_taken'), {})).toMatchObject({ type: 'SignRefused', nonRetryable: true });
  });
});
