import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { ChainActivities } from '../activities/chain.ts';
import type { DeliveryActivities } from '../activities/deliveries.ts';
import type { GasActivities } from '../activities/gas.ts';
import type { RestoreActivities } from '../activities/restore.ts';
import type { SigningActivities } from '../activities/signing.ts';
import type { WalletActivities } from '../activities/wallet.ts';
import type { WebhookActivities } from '../activities/webhooks.ts';
import { queues } from '../shared/temporal.ts';

/** SQL only, in the worker that runs the workflow: an attempt ends within a second, or is repeated. */
export const {
  evaluatePolicy,
  awaitApproval,
  findApprovalMails,
  allot,
  awaitFunds,
  allotReplacement,
  dropReplacement,
  findUnsigned,
  giveBackNonce,
  settle,
  fail,
  stampAuthorization,
  issueAuthorization,
  settleX402,
  failX402,
  endSession,
  claimKey,
  findOwnerKey,
  publishKey,
  countMissingKeys,
  noteKeyRefresh,
  readFreezeOrder,
  markFreezeTold,
} = proxyLocalActivities<WalletActivities>({
  startToCloseTimeout: '2s',
  retry: { initialInterval: '100ms', maximumInterval: '5s' },
});

/** The timeout is also how long a dead worker's step waits to be repeated; an endpoint is given up after 4 s. */
export const { prepare, quoteReplacement, broadcast, checkChain, checkAuthorization } =
  proxyActivities<ChainActivities>({
    taskQueue: queues.chain,
    startToCloseTimeout: '10s',
    retry: { initialInterval: '250ms', maximumInterval: '5s' },
  });

/** A signature takes some 50 ms; while signers are away, each attempt looks for them for up to 20 s, and for a day in all. */
export const { sign } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '25s',
  scheduleToCloseTimeout: '24h',
  heartbeatTimeout: '5s',
  retry: { initialInterval: '250ms', maximumInterval: '5s' },
});

/** For a nonce that is to be given back: while too few signers are there, it is asked for again with each look. */
export const { endUnsigned } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '10s',
  scheduleToCloseTimeout: '15s',
  retry: { initialInterval: '250ms', maximumInterval: '5s' },
});

/**
 * What is frozen has to reach the signers within a second: before all signatures that wait for a place in that queue. Who
 * does not answer is told again by a repeat, with the newest word.
 */
export const { tellSigners } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '5s',
  scheduleToCloseTimeout: '30s',
  retry: { initialInterval: '100ms', maximumInterval: '1s' },
  priority: { priorityKey: 1 },
});

/** As `sign`, for as long as a signature makes sense: after that, what was to be signed is another one. */
export const authorizationsWithin = (leftMs: number) =>
  proxyActivities<SigningActivities>({
    taskQueue: queues.signing,
    startToCloseTimeout: '25s',
    scheduleToCloseTimeout: leftMs,
    heartbeatTimeout: '5s',
    retry: { initialInterval: '250ms', maximumInterval: '5s' },
  });

/** Three processes work for some seconds, and queue when several keys are wanted. */
export const { generateKey } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '2m',
  heartbeatTimeout: '10s',
  retry: { initialInterval: '1s', maximumInterval: '10s' },
});

/** For somebody who waits for the answer: twice at most, and within five seconds. */
export const { readBalances, quote } = proxyActivities<ChainActivities>({
  taskQueue: queues.chain,
  startToCloseTimeout: '4s',
  scheduleToCloseTimeout: '5s',
  retry: { initialInterval: '100ms', maximumAttempts: 2 },
});

/** For somebody who waits for the answer: once, and quickly. */
export const { signerHealth } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '2s',
  scheduleToCloseTimeout: '3s',
  retry: { maximumAttempts: 1 },
});

/** Asks three signers at once what they hold; the schedule looks again in a minute. */
export const { inspectSigners } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '45s',
  heartbeatTimeout: '5s',
  retry: { initialInterval: '2s', maximumAttempts: 2 },
});

/** The same for a refresh, which needs all three: signers that restart are waited for. */
export const { listDueKeys } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '30s',
  scheduleToCloseTimeout: '15m',
  heartbeatTimeout: '5s',
  retry: { initialInterval: '2s', maximumInterval: '1m' },
});

/**
 * Takes seconds, by the complete protocol longer. Repeated while a signer is away, and not for long: the rest is for the
 * next run of the schedule. The heartbeat tells soon when a worker has died.
 */
export const { refreshKey } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '5m',
  scheduleToCloseTimeout: '15m',
  heartbeatTimeout: '10s',
  retry: { initialInterval: '2s', maximumInterval: '30s', maximumAttempts: 6 },
});

/** Once a minute; nothing waits for it but the next look. */
export const { noteSignerLook } = proxyActivities<WalletActivities>({
  startToCloseTimeout: '20s',
  scheduleToCloseTimeout: '2m',
  retry: { initialInterval: '1s', maximumInterval: '10s' },
});

/** Mails to operators, for as long as what they say is news. */
export const { sendAlertMail } = proxyActivities<WebhookActivities>({
  taskQueue: queues.webhooks,
  startToCloseTimeout: '2m',
  scheduleToCloseTimeout: '24h',
  retry: { initialInterval: '2s', backoffCoefficient: 2, maximumInterval: '2m' },
});

/**
 * Starts hundreds of workflows. The heartbeat is short because an answer that got lost must not hold up the runs to
 * come: the schedule starts no second one beside it.
 */
export const { startMissing, wakeThawed } = proxyActivities<WalletActivities>({
  startToCloseTimeout: '1m',
  heartbeatTimeout: '5s',
  retry: { initialInterval: '1s', maximumAttempts: 3 },
});

/** Reads every reservation once a day. */
export const { checkReservations } = proxyActivities<WalletActivities>({
  startToCloseTimeout: '10m',
  heartbeatTimeout: '15s',
  retry: { initialInterval: '10s', maximumAttempts: 3 },
});

/** Once a day; waits for whoever uses the tables, and is in no hurry. */
export const { keepMonths } = proxyActivities<WalletActivities>({
  startToCloseTimeout: '30m',
  heartbeatTimeout: '15s',
  retry: { initialInterval: '10s', maximumInterval: '10m', maximumAttempts: 20 },
});

/**
 * Mails to people, until the question is over: a mail server may be away for hours. The activity ends long before its
 * timeout; that one is for a worker that died.
 */
export const mailsWithin = (leftMs: number) =>
  proxyActivities<WebhookActivities>({
    taskQueue: queues.webhooks,
    startToCloseTimeout: '2m',
    scheduleToCloseTimeout: leftMs,
    retry: { initialInterval: '2s', backoffCoefficient: 3, maximumInterval: '10m' },
  });

/**
 * One attempt takes 15 s at most; the timeout is how long the attempt of a worker that died waits to be repeated. When the
 * next one is due is told by the activity; the policy is for a database that is away. It has no end: the row has.
 */
export const { deliverWebhook } = proxyActivities<DeliveryActivities>({
  taskQueue: queues.deliveries,
  startToCloseTimeout: '30s',
  retry: { initialInterval: '5s', backoffCoefficient: 2, maximumInterval: '30s' },
});

/** Once a day, where a worker holds the keys; one that died is noticed soon. */
export const { resealSecrets } = proxyActivities<DeliveryActivities>({
  taskQueue: queues.deliveries,
  startToCloseTimeout: '10m',
  scheduleToCloseTimeout: '2h',
  heartbeatTimeout: '15s',
  retry: { initialInterval: '10s', maximumInterval: '5m' },
});

/** After a restore, whose operator waits: pages of what signers recorded, each joined over all three. */
export const { listSigned, readSigned } = proxyActivities<SigningActivities>({
  taskQueue: queues.signing,
  startToCloseTimeout: '2m',
  scheduleToCloseTimeout: '10m',
  heartbeatTimeout: '10s',
  retry: { initialInterval: '1s', maximumInterval: '10s' },
});

/** The same in the database, and in Temporal; each can be repeated. */
export const { findUnsure, restorePayments, endLost, endRuns, secureKeys, resumePayments, readStanding, countEnds } =
  proxyActivities<RestoreActivities>({
    startToCloseTimeout: '10m',
    scheduleToCloseTimeout: '30m',
    heartbeatTimeout: '15s',
    retry: { initialInterval: '1s', maximumInterval: '10s' },
  });

/** Asks the chains about some keys for up to a minute; a worker without nodes that answer says so itself. */
export const { findLostWallets } = proxyActivities<ChainActivities>({
  taskQueue: queues.chain,
  startToCloseTimeout: '3m',
  scheduleToCloseTimeout: '10m',
  heartbeatTimeout: '15s',
  retry: { initialInterval: '1s', maximumInterval: '10s' },
});

/** Every wallet of a chain; what is not read now is read by the next run. */
export const { readGas } = proxyActivities<ChainActivities>({
  taskQueue: queues.chain,
  startToCloseTimeout: '90s',
  scheduleToCloseTimeout: '2m',
  heartbeatTimeout: '10s',
  retry: { initialInterval: '2s', maximumAttempts: 2 },
});

/** Stores payments and starts them; the schedule looks again in some minutes. */
export const { topUpGas } = proxyActivities<GasActivities>({
  startToCloseTimeout: '1m',
  scheduleToCloseTimeout: '2m',
  heartbeatTimeout: '10s',
  retry: { initialInterval: '2s', maximumAttempts: 3 },
});
