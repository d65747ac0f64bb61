import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';

/** Task queues, one a class of work; each may have workers of its own. */
export const queues = { wallet: 'wallet', signing: 'wallet-signing', chain: 'wallet-chain' } as const;

/** What the api starts and asks for, by the names that are stored in histories. */
export const workflowNames = {
  transaction: 'transaction',
  accountKey: 'accountKey',
  readiness: 'readiness',
  reconcile: 'reconcile',
  checkLimits: 'checkLimits',
} as const;

/** Names of messages to a running `transaction`. */
export const messageNames = {
  policyDecision: 'policyDecision',
  chainState: 'chainState',
  slotFree: 'slotFree',
} as const;

export const searchAttributes = {
  accountId: defineSearchAttributeKey('AccountId', SearchAttributeType.KEYWORD),
  agentId: defineSearchAttributeKey('AgentId', SearchAttributeType.KEYWORD),
  txStatus: defineSearchAttributeKey('TxStatus', SearchAttributeType.KEYWORD),
  chain: defineSearchAttributeKey('Chain', SearchAttributeType.KEYWORD),
};

/** Input of workflow `transaction`; the row holds everything else. */
export interface TransactionInput {
  readonly transactionId: string;
}

/** Answer of the update `policyDecision`: only that the row can be read now. */
export interface PolicyDecision {
  readonly outcome: 'allowed' | 'denied' | 'failed';
}

/** Input and result of workflow `accountKey`, whose id is `account-key/<account id>`: single-flight for each account. */
export interface AccountKeyInput {
  readonly accountId: string;
}
export interface AccountKeyResult {
  readonly accountKeyId: string;
}

/** Result of workflow `readiness`: the signers as the signing worker sees them. */
export interface ReadinessResult {
  readonly signers: readonly { readonly party: number; readonly ok: boolean; readonly error?: string }[];
}

export const accountKeyWorkflowId = (accountId: string): string => `account-key/${accountId}`;
