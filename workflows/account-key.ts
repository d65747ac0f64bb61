import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { ParentClosePolicy, patched, setCurrentDetails, startChild } from '@temporalio/workflow';
import type { AccountKeyInput, AccountKeyResult } from '../shared/temporal.ts';
import { claimKey, countMissingKeys, findOwnerKey, generateKey, publishKey } from './proxies.ts';

const spareKeysWorkflowId = 'spare-keys';

/** Gives an account its key: a spare one at once, or one that the three signers make now. Then replaces the spare. */
export async function accountKey({ accountId }: AccountKeyInput): Promise<AccountKeyResult> {
  let accountKeyId = await claimKey(accountId);
  if (accountKeyId === undefined) {
    setCurrentDetails('The three signers are making the key together.');
    const ownerKey = patched('owner-key') ? await findOwnerKey(accountId) : undefined;
    const key = await generateKey(ownerKey);
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
