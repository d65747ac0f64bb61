import { workflowInfo } from '@temporalio/workflow';
import { answered } from './answered.ts';
import { frozen } from './frozen.ts';
import { longestHistory, show } from './payment-messages.ts';
import type { X402Progress } from './progress.ts';
import { authorizationsWithin, failX402, issueAuthorization, stampAuthorization } from './proxies.ts';
import { askSigners } from './sign-and-send.ts';

/**
 * Everything from the stored row to the header that was handed out.
 * @returns `long`: it is frozen, with so long a history that it is to go on in a new run; `outdated`: something may be signed, and it is too late or nobody may have it; wait until it is over
 */
export async function authorise(
  ledgerId: string,
  progress: X402Progress,
): Promise<'issued' | 'outdated' | 'failed' | 'long'> {
  let frozenMs = 0;
  for (;;) {
    show('stamp');
    const stamped = await stampAuthorization(ledgerId);
    if (stamped.outcome === 'awaiting') {
      progress.answer = { outcome: 'awaiting' };
      await answered(ledgerId, progress);
      continue;
    }
    if (stamped.outcome === 'frozen') {
      // The row can be read; whoever waits for an answer need not wait for the end of the freeze.
      progress.answer = { outcome: 'awaiting' };
      if (workflowInfo().historyLength > longestHistory) return 'long';
      frozenMs = await frozen(progress, { lastMs: frozenMs, by: 'database' });
      continue;
    }
    if (stamped.outcome === 'outdated') return 'outdated';
    if (stamped.outcome !== 'stamped') return leave(progress, stamped.outcome);
    const { allotment, leftMs } = stamped;
    const { signAuthorization } = authorizationsWithin(leftMs);
    const signed = await askSigners(ledgerId, () => signAuthorization(allotment, { knowsFreezes: true }));
    if (signed.outcome === 'refused') {
      const { outcome } = await failX402(ledgerId, 'signing_failed', signed.message);
      return leave(progress, outcome);
    }
    if (signed.outcome === 'frozen') {
      progress.answer = { outcome: 'awaiting' };
      if (workflowInfo().historyLength > longestHistory) return 'long';
      frozenMs = await frozen(progress, { lastMs: frozenMs, by: 'signers' });
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
