import { condition, continueAsNew, setHandler, workflowInfo } from '@temporalio/workflow';
import type { X402SessionInput } from '../shared/temporal.ts';
import { longestHistory, sessionEnded, show } from './payment-messages.ts';
import { endSession } from './proxies.ts';

/** One session, until its time is over or somebody has deleted it: then the rest of its budget is free again. */
export async function x402Session({ sessionId }: X402SessionInput): Promise<void> {
  let hint = false;
  setHandler(sessionEnded, () => {
    hint = true;
  });
  show('session');
  for (;;) {
    hint = false;
    const session = await endSession(sessionId);
    if (session.state === 'ended') return;
    if (workflowInfo().historyLength > longestHistory) await continueAsNew<typeof x402Session>({ sessionId });
    await condition(() => hint, session.leftMs);
  }
}
