import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import type { Token } from './chain/registry.ts';
import type { RefreshProgress } from './domain/key-refresh.ts';
import type { RestoreReport } from './domain/restore.ts';

/** Task queues, one a class of work; each may have workers of its own. */
export const queues = {
  wallet: 'wallet',
  signing: 'wallet-signing',
  chain: 'wallet-chain',
  /** Mail to people. */
  webhooks: 'wallet-webhooks',
  /** Deliveries to webhooks, workflows and activities: whatever receivers do, payments and mails do not wait for it. */
  deliveries: 'wallet-deliveries',
} as const;

/** What the api starts and asks for, by the names that are stored in histories. */
export const workflowNames = {
  transaction: 'transaction',
  approvalMail: 'approvalMail',
  x402Session: 'x402Session',
  x402Payment: 'x402Payment',
  accountKey: 'accountKey',
  readiness: 'readiness',
  reconcile: 'reconcile',
  checkLimits: 'checkLimits',
  balances: 'balances',
  quote: 'quote',
  webhookDelivery: 'webhookDelivery',
  maintenance: 'maintenance',
  refreshKeys: 'refreshKeys',
  watchSigners: 'watchSigners',
  watchGas: 'watchGas',
  restore: 'restore',
  freeze: 'freeze',
} as const;

/** Names of messages to a running `transaction`. */
export const messageNames = {
  policyDecision: 'policyDecision',
  /** Of `x402Payment`: answered once the row shows how it stands. */
  authorization: 'authorization',
  /** Of `x402Session`: a hint that it was deleted. */
  sessionEnded: 'sessionEnded',
  chainState: 'chainState',
  slotFree: 'slotFree',
  /** Somebody has answered, or something else has changed: hints to read the database, that decide nothing. */
  approve: 'approve',
  reject: 'reject',
  lookAgain: 'lookAgain',
  /** Somebody wants the payment cancelled or sped up, or it makes no progress: a hint to look at everything. */
  replace: 'replace',
  /** Of `freeze`: a query, answered by `FreezeProgress`: which signers have confirmed what is frozen. */
  freezeProgress: 'freezeProgress',
  /** Of `restore`: how far it is, in words. */
  restoreProgress: 'restoreProgress',
} as const;

export const searchAttributes = {
  accountId: defineSearchAttributeKey('AccountId', SearchAttributeType.KEYWORD),
  agentId: defineSearchAttributeKey('AgentId', SearchAttributeType.KEYWORD),
  txStatus: defineSearchAttributeKey('TxStatus', SearchAttributeType.KEYWORD),
  chain: defineSearchAttributeKey('Chain', SearchAttributeType.KEYWORD),
  /** When the question that a payment waits for expires; only while it waits. */
  approvalDeadline: defineSearchAttributeKey('ApprovalDeadline', SearchAttributeType.DATETIME),
};

/** Input of workflow `transaction`; the row holds everything else. */
export interface TransactionInput {
  readonly transactionId: string;
}

/** Input of workflow `approvalMail`, whose id is `approval-mail/<approval id>`: tells everybody whom the question names. */
export interface ApprovalMailInput {
  readonly approvalId: string;
}

/** Answer of the update `policyDecision`: only that the row can be read now. */
export interface PolicyDecision {
  readonly outcome: 'allowed' | 'denied' | 'failed';
}

/** Input of workflow `x402Session`, whose id is the session's. */
export interface X402SessionInput {
  readonly sessionId: string;
}

/** Input of workflow `x402Payment`, whose id is the payment's. */
export interface X402PaymentInput {
  readonly ledgerId: string;
}

/** Input of workflow `webhookDelivery`, whose id is the delivery's. */
export interface WebhookDeliveryInput {
  readonly deliveryId: string;
}

/** Answer of the update `authorization`: only that the row can be read now. */
export interface X402Answer {
  readonly outcome: 'issued' | 'awaiting' | 'failed' | 'ending';
}

/** Input and result of workflow `accountKey`, whose id is `account-key/<account id>`: single-flight for each account. */
export interface AccountKeyInput {
  readonly accountId: string;
}
export interface AccountKeyResult {
  readonly accountKeyId: string;
}

/** The one run of workflow `freeze`, which has no input. */
export const freezeWorkflowId = 'freeze';

/** Result of workflow `readiness`: the signers as the signing worker sees them. */
export interface ReadinessResult {
  readonly signers: readonly { readonly party: number; readonly ok: boolean; readonly error?: string }[];
}

/** Input of workflow `refreshKeys`: all keys whose shares are older, or one key whatever its age. */
export interface RefreshKeysInput {
  readonly keyId?: string;
  /** Default 0: all. */
  readonly olderThanDays?: number;
  /** Whether the shares are computed by the complete protocol, which takes nothing of the old ones for granted. */
  readonly complete?: boolean;
  /** Of the run before, which had too many keys. */
  readonly progress?: RefreshProgress;
}

/** Input of workflow `watchSigners`. */
export interface WatchSignersInput {
  /** How old shares are to become; 0: nobody refreshes them by a schedule. */
  readonly refreshDays: number;
  /** Whether a signer is to have a backup. */
  readonly wantsBackups: boolean;
}

/** Input of workflow `watchGas`: every chain (CAIP-2) that is served. */
export interface WatchGasInput {
  readonly chains: readonly string[];
}
/** A chain on which coins for fees are read. */
export interface ReadGasInput {
  readonly chain: string;
}
/** Wallets of a chain whose coins for fees were read, those of them that are low, and those that could not be read. */
export interface GasRead {
  readonly chain: string;
  readonly read: number;
  readonly low: number;
  readonly failed: number;
}

/** Input of workflow `restore`, whose id is its name. */
export interface RestoreInput {
  /** Says what would be done, and does nothing. */
  readonly dryRun: boolean;
  /** Whoever runs it knows that the database lost nothing: no address is taken out of use. */
  readonly isKept?: boolean;
  /**
   * Payments signed since then are compared; never less than without it: since an hour before the newest thing that the
   * database knows of, two days at least.
   */
  readonly sinceMs?: number;
  /** Of the run before, which had too many payments. */
  readonly progress?: {
    readonly sinceMs: number;
    readonly lostFromMs: number | null;
    readonly report: RestoreReport;
    readonly compared: number;
    readonly restored: readonly string[];
    readonly after: { readonly atMs: number; readonly id: string } | null;
  };
}

/** Result of workflow `restore`. */
export interface RestoreResult {
  readonly dryRun: boolean;
  readonly sinceMs: number;
  /** The newest instant that the database knew of when it began: what came later may be lost. Null for an empty one. */
  readonly lostFromMs: number | null;
  /** Payments that the signers signed. */
  readonly compared: number;
  /** What has become of the payments that were stored again, by status. */
  readonly ends: Readonly<Record<string, number>>;
  readonly report: RestoreReport;
}

/** Input of workflow `balances`: an address, and the chains (CAIP-2) that it is looked up on. */
export interface BalancesInput {
  readonly owner: string;
  readonly chains: readonly string[];
}
/** Its result for one chain: balances as of a block, in minor units; or why there are none. */
export type ChainBalances =
  | {
      readonly chain: string;
      readonly atBlock: number;
      readonly data: readonly (
        | { readonly token: string; readonly amountMinor: string }
        | { readonly token: string; readonly error: string }
      )[];
    }
  | { readonly chain: string; readonly error: string };

/** Input of workflow `quote`: a payment that nobody has asked for yet; its result is that of `prepare`. */
export interface QuoteInput {
  readonly chain: string;
  readonly from: string;
  readonly to: string;
  readonly token: Token;
  readonly amountMinor: string;
}

export const approvalMailWorkflowId = (approvalId: string): string => `approval-mail/${approvalId}`;
export const accountKeyWorkflowId = (accountId: string): string => `account-key/${accountId}`;
/** One at a time tells what is wrong with the signers. */
export const alertMailWorkflowId = 'signer-alert-mail';
