import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  ParentClosePolicy,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  startChild,
} from '@temporalio/workflow';
import type { SigningActivities } from '../activities/signing.ts';
import type { WalletActivities } from '../activities/wallet.ts';
import { type AccountKeyInput, type AccountKeyResult, queues } from '../shared/temporal.ts';

const { claimKey, publishKey, countMissingKeys } = proxyLocalActivities<WalletActivities>({
  startToCloseTimeout: '2s',
  retry: { initialInterval: '100ms', maximumInterval: '5s' },
});
const { generateKey } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '2m',
  heartbeatTimeout: '10s',
  retry: { initialInterval: '1s', maximumInterval: '10s' },
});

const spareKeysWorkflowId = 'spare-keys';

/** Gives an account its key: a spare one at once, or one that the three signers make now. Then replaces the spare. */
export async function accountKey({ accountId }: AccountKeyInput): Promise<AccountKeyResult> {
  let accountKeyId = await claimKey(accountId);
  if (accountKeyId === undefined) {
    setCurrentDetails('The three signers are making the key together.');
    const key = await generateKey();
    await publishKey(accountId, key);
    accountKeyId = (await claimKey(accountId)) ?? key.keyId;
  }
  await startChild(spareKeys, { workflowId: spareKeysWorkflowId, parentClosePolicy: ParentClosePolicy.ABANDON }).catch(
    (error: unknown) => {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    },
  );
  return { accountKeyId };
}

/** Makes spare keys until there are as many as configured, one after another. */
export async function spareKeys(): Promise<void> {
  for (let missing = await countMissingKeys(); missing > 0; missing = await countMissingKeys()) {
    setCurrentDetails(`${missing} spare key(s) missing.`);
    await publishKey(null, await generateKey());
  }
}
