import { answered } from './answered.ts';
import { show } from './payment-messages.ts';
import type { X402Progress } from './progress.ts';
import { authorizationsWithin, failX402, issueAuthorization, stampAuthorization } from './proxies.ts';
import { askSigners } from './sign-and-send.ts';

/**
 * Everything from the stored row to the header that was handed out.
 * @returns `outdated`: something may be signed, and it is too late or nobody may have it; wait until it is over
 */
export async function authorise(ledgerId: string, progress: X402Progress): Promise<'issued' | 'outdated' | 'failed'> {
  for (;;) {
    show('stamp');
    const stamped = await stampAuthorization(ledgerId);
    if (stamped.outcome === 'awaiting') {
      progress.answer = { outcome: 'awaiting' };
      await answered(ledgerId, progress);
      continue;
    }
    if (stamped.outcome === 'outdated') return 'outdated';
    if (stamped.outcome !== 'stamped') return leave(progress, stamped.outcome);
    const { allotment, leftMs } = stamped;
    const { signAuthorization } = authorizationsWithin(leftMs);
    const signed = await askSigners(ledgerId, () => signAuthorization(allotment));
    if (signed.outcome === 'refused') {
      const { outcome } = await failX402(ledgerId, 'signing_failed', signed.message);
      return leave(progress, outcome);
    }
    if (signed.outcome !== 'signed') continue;
    const { outcome } = await issueAuthorization(ledgerId, signed.signed.signature);
    if (outcome !== 'again') return leave(progress, outcome);
  }
}

/** The row says how it stands: the POST can be answered. */
function leave(progress: X402Progress, outcome: 'issued' | 'failed' | 'ending'): 'issued' | 'outdated' | 'failed' {
  progress.answer = { outcome };
  return outcome === 'ending' ? 'outdated' : outcome;
}
