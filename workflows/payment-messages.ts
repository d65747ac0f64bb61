import { defineSignal, defineUpdate, getExternalWorkflowHandle, log, setCurrentDetails } from '@temporalio/workflow';
import { describeStage, type Stage } from '../shared/domain/transaction.ts';
import { messageNames, type PolicyDecision, type X402Answer } from '../shared/temporal.ts';

/** Answers the POST: once decided, and once the chain's first word is known if that comes quickly. */
export const policyDecision = defineUpdate<PolicyDecision>(messageNames.policyDecision);
/** Answers the POST of an x402 payment: once the row shows how it stands. */
export const authorization = defineUpdate<X402Answer>(messageNames.authorization);
/** A hint that a session has ended. */
export const sessionEnded = defineSignal(messageNames.sessionEnded);
/** A hint that the database knows more about our attempts than before; carries nothing. */
export const chainState = defineSignal(messageNames.chainState);
/** A hint to look at everything: somebody wants the payment cancelled or sped up, or nothing was heard of it for long. */
export const replace = defineSignal(messageNames.replace);
/** A hint that a nonce of our wallet may be free. */
export const slotFree = defineSignal(messageNames.slotFree);
/** Events after which what waits long goes on in a new run; Temporal's own limit is 50,000. */
export const longestHistory = 5_000;
/** Hints that there may be an answer, or that none is needed; they carry nothing, for nobody knows who sends a signal. */
export const answerHints = [messageNames.approve, messageNames.reject, messageNames.lookAgain].map((name) =>
  defineSignal(name),
);

/** Tells the next payment of the wallet that a nonce may be free; if it is gone, it needs none. */
export async function wake(transactionId: string | undefined): Promise<void> {
  if (transactionId === undefined) return;
  await getExternalWorkflowHandle(transactionId)
    .signal(slotFree)
    .catch((error: unknown) => log.info('the payment to be woken is gone', { transactionId, error: String(error) }));
}

/** Tells the operator in words where the payment stands. */
export function show(stage: Stage): void {
  setCurrentDetails(describeStage(stage));
}
