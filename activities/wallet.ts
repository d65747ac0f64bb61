import type { Client } from '@temporalio/client';
import type { Pool } from '../shared/db/pool.ts';
import type { Patience } from '../shared/domain/transaction.ts';
import type { Logger } from '../shared/log.ts';
import { createClaimKey, createCountMissingKeys, createFindOwnerKey, createPublishKey } from './account-key.ts';
import { type AllotDependencies, createAllot } from './allot.ts';
import { createAllotReplacement, createDropReplacement } from './allot-replacement.ts';
import { createAwaitApproval } from './await-approval.ts';
import { createAwaitFunds } from './await-funds.ts';
import { createCheckReservations } from './check-reservations.ts';
import { createEndSession } from './end-session.ts';
import { createEvaluatePolicy } from './evaluate-policy.ts';
import { createFindApprovalMails } from './find-approval-mails.ts';
import { createFindUnsigned, createGiveBackNonce } from './give-back-nonce.ts';
import { createIssueAuthorization } from './issue-authorization.ts';
import { createKeepMonths, type Retention } from './keep-months.ts';
import { createNoteKeyRefresh } from './note-key-refresh.ts';
import { createNoteSignerLook } from './note-signer-look.ts';
import { createMarkFreezeTold, createReadFreezeOrder } from './read-freeze-order.ts';
import { createFail, createSettle } from './settle.ts';
import { createFailX402, createSettleX402 } from './settle-x402.ts';
import { createStampAuthorization } from './stamp-authorization.ts';
import { createStartMissing } from './start-missing.ts';
import { createWakeThawed } from './wake-thawed.ts';

export interface WalletDependencies extends AllotDependencies {
  readonly pool: Pool;
  readonly client: Client;
  readonly logger: Logger;
  readonly spareKeys: number;
  readonly patience: Patience;
  readonly retention: Retention;
}

/** Activities of queue `wallet`: SQL and Temporal only. */
export function createWalletActivities(deps: WalletDependencies) {
  return {
    evaluatePolicy: createEvaluatePolicy(deps),
    awaitApproval: createAwaitApproval(deps),
    findApprovalMails: createFindApprovalMails(deps),
    allot: createAllot(deps),
    awaitFunds: createAwaitFunds(deps),
    allotReplacement: createAllotReplacement(deps),
    dropReplacement: createDropReplacement(deps),
    findUnsigned: createFindUnsigned(deps),
    giveBackNonce: createGiveBackNonce(deps),
    settle: createSettle(deps),
    fail: createFail(deps),
    stampAuthorization: createStampAuthorization(deps),
    issueAuthorization: createIssueAuthorization(deps),
    settleX402: createSettleX402(deps),
    failX402: createFailX402(deps),
    endSession: createEndSession(deps),
    claimKey: createClaimKey(deps),
    findOwnerKey: createFindOwnerKey(deps),
    publishKey: createPublishKey(deps),
    countMissingKeys: createCountMissingKeys(deps),
    startMissing: createStartMissing(deps),
    wakeThawed: createWakeThawed(deps),
    readFreezeOrder: createReadFreezeOrder(deps),
    markFreezeTold: createMarkFreezeTold(deps),
    checkReservations: createCheckReservations(deps),
    keepMonths: createKeepMonths(deps),
    noteKeyRefresh: createNoteKeyRefresh(deps),
    noteSignerLook: createNoteSignerLook(deps),
  };
}
export type WalletActivities = ReturnType<typeof createWalletActivities>;
