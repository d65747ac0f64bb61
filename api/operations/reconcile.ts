import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Client,
  QueryNotRegisteredError,
  QueryRejectedError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  type WorkflowHandle,
} from '@temporalio/client';
import {
  messageNames,
  queues,
  type ReadinessResult,
  type RestoreInput,
  type RestoreResult,
  workflowNames,
} from '../../shared/temporal.ts';
import { UsageError } from '../usage-error.ts';

/** How often it is asked how far it is. */
const pollMs = 1_000;
/** How long a signer that is away is waited for, from when it is known: it may be starting, or slow. */
const signersWaitMs = 20_000;
/** The same where no worker says how the signers are, and how long one look may take. */
const [workersWaitMs, lookMs] = [120_000, 10_000];

/**
 * Waits until all three signers answer the workers: what two of them have signed, the third may not know.
 * @throws UsageError naming who is away; nothing was changed then
 */
export async function requireAllSigners(client: Client, { tell }: { tell: (words: string) => void }): Promise<void> {
  const startedAt = performance.now();
  let awaySince: number | undefined;
  for (let isTold = false; ; isTold = true) {
    const signers = await lookAtSigners(client);
    const away = signers?.filter(({ ok }) => !ok) ?? [];
    if (signers && away.length === 0) return;
    const now = performance.now();
    if (signers) awaySince ??= now;
    if (signers && now - awaySince! >= signersWaitMs) throw new UsageError(inWords(away));
    if (now - startedAt >= workersWaitMs)
      throw new UsageError(
        'No worker says how the signers are. Nothing was changed: start workers of the queues wallet and wallet-signing, then reconcile again.',
      );
    if (!isTold) tell(signers ? 'Waits for a signer that does not answer.' : 'Waits for the workers.');
    await sleep(pollMs);
  }
}

/** The signers as the workers see them; undefined where nobody says. */
async function lookAtSigners({ workflow }: Client): Promise<ReadinessResult['signers'] | undefined> {
  try {
    const { signers } = await workflow.execute<() => Promise<ReadinessResult>>(workflowNames.readiness, {
      workflowId: `readiness/${randomUUID()}`,
      taskQueue: queues.wallet,
      workflowExecutionTimeout: lookMs,
    });
    return signers;
  } catch (error) {
    if (error instanceof WorkflowFailedError) return undefined;
    throw error;
  }
}

function inWords(away: ReadinessResult['signers']): string {
  const each = away.map(({ party, error }) => `Signer ${party} does not answer (${error ?? 'no reason given'}).`);
  return `${each.join(' ')} Reconcile needs all three signers, for what two of them signed the third one may not know. Nothing was changed: bring it back (npm run signers -- status), then reconcile again.`;
}

/**
 * Runs workflow `restore` to its end. Where one runs already that does the same, waits for that one: what it mended is told
 * by it alone.
 * @param tell gets each new word about how far it is
 * @throws WorkflowFailedError with the reason of the workflow
 */
export async function runRestore(
  client: Client,
  { input, tell }: { input: RestoreInput; tell: (words: string) => void },
): Promise<RestoreResult> {
  for (;;) {
    const started = await start(client, input);
    if (!started) tell('One is running already: waits for its end.');
    const handle = started ?? client.workflow.getHandle(workflowNames.restore);
    const result = await follow(handle, tell);
    const isSame = result.dryRun === input.dryRun && result.sinceMs <= (input.sinceMs ?? Number.POSITIVE_INFINITY);
    if (started || isSame) return result;
  }
}

/** @returns undefined where one runs already */
function start(client: Client, input: RestoreInput): Promise<WorkflowHandle | undefined> {
  return client.workflow
    .start(workflowNames.restore, {
      workflowId: workflowNames.restore,
      taskQueue: queues.wallet,
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      args: [input],
      staticSummary: input.dryRun
        ? 'Compares the database with signers and Temporal, and changes nothing'
        : 'Compares the database with signers and Temporal after a restore, and mends it',
    })
    .catch((error: unknown) => {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      return undefined;
    });
}

async function follow(handle: WorkflowHandle, tell: (words: string) => void): Promise<RestoreResult> {
  let last = '';
  const timer = setInterval(async () => {
    const words = await handle.query<string>(messageNames.restoreProgress).catch((error: unknown) => {
      if (error instanceof QueryNotRegisteredError || error instanceof QueryRejectedError) return last;
      return 'Waits for a worker of queue wallet.';
    });
    if (words !== last) tell(words);
    last = words;
  }, pollMs);
  try {
    return (await handle.result()) as RestoreResult;
  } finally {
    clearInterval(timer);
  }
}
