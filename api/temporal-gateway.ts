import { randomUUID } from 'node:crypto';
import {
  type Client,
  type Connection,
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
} from '@temporalio/client';
import type { PrepareResult } from '../shared/chain/adapter.ts';
import type { TransactionRow } from '../shared/db/transactions.ts';
import type { DeliveryRow } from '../shared/db/webhook-deliveries.ts';
import type { X402PaymentRow } from '../shared/db/x402-payments.ts';
import type { SessionRow } from '../shared/db/x402-sessions.ts';
import type { FreezeProgress } from '../shared/domain/freeze-progress.ts';
import { PurserError } from '../shared/errors.ts';
import { startFreeze } from '../shared/freeze-start.ts';
import type { Logger } from '../shared/log.ts';
import { noteInLog } from '../shared/log-context.ts';
import {
  type AccountKeyInput,
  type AccountKeyResult,
  accountKeyWorkflowId,
  type BalancesInput,
  type ChainBalances,
  freezeWorkflowId,
  messageNames,
  type QuoteInput,
  queues,
  type ReadinessResult,
  workflowNames,
} from '../shared/temporal.ts';
import { transactionStart } from '../shared/transaction-start.ts';
import { webhookDeliveryStart } from '../shared/webhook-delivery-start.ts';
import { x402PaymentStart, x402SessionStart } from '../shared/x402-start.ts';

/** Longest wait for an account's key to be made, unless told otherwise; it takes some seconds. */
const defaultAccountKeyWaitMs = 60_000;
/** Longest wait for the signing worker's report. */
const readinessWaitMs = 2_000;
/** Longest wait for what a chain says, and how long the question may live. */
const chainAnswerMs = 6_000;
const questionTimeoutMs = 8_000;
const pingWaitMs = 1_000;
const signalWaitMs = 2_000;
const readinessTimeoutMs = 5_000;
/** Longest wait for the end of a delivery that is attempted once: a receiver has 15 s. */
const deliveryWaitMs = 18_000;

/** What the api asks of Temporal. */
export interface TemporalGateway {
  /** The longest that `decideTransaction` and `payX402` wait. */
  readonly decisionWaitMs: number;
  /**
   * Starts the payment's workflow and waits for the policies' decision, but never longer than configured.
   * `undecided`: nothing is known, and the row alone makes sure that the payment goes on.
   */
  decideTransaction(row: TransactionRow, context: { log: Logger }): Promise<'decided' | 'undecided'>;
  /** Tells a waiting payment that somebody has answered. A hint: that it gets lost is logged, and harmless. */
  tellAnswer(paymentId: string, decision: 'approved' | 'rejected'): Promise<void>;
  /** Tells a payment that its cancellation or a replacement was asked for: a hint, as above. */
  tellReplace(transactionId: string): Promise<void>;
  /** Has the signers told what is frozen: a hint, as above. */
  tellFreeze(): Promise<void>;
  /** Which signers know what is frozen; undefined where that cannot be said now. */
  freezeProgress(): Promise<FreezeProgress | undefined>;
  /**
   * Starts the x402 payment's workflow and waits until its authorisation is issued, or it is known why not now, but never
   * longer than for a decision. The row tells which; it alone makes sure that the payment goes on.
   */
  payX402(row: X402PaymentRow, context: { log: Logger }): Promise<void>;
  /** Starts the workflow that ends the session when its time is over: a hint, as above. */
  startSession(row: SessionRow): Promise<void>;
  /** Tells a session's workflow that it was deleted: a hint, as above. */
  tellSessionEnded(sessionId: string): Promise<void>;
  /** Starts the delivery's workflow and waits until it has ended, but 18 s at most. The row tells how it stands. */
  deliver(row: DeliveryRow, context: { log: Logger }): Promise<void>;
  /** Has the account's key made, once however many ask. @throws PurserError 503 when it does not come in time */
  makeAccountKey(request: { accountId: string }): Promise<AccountKeyResult>;
  /** What an address holds on several chains. @throws PurserError 503 when no worker answers in time */
  balances(request: BalancesInput): Promise<ChainBalances[]>;
  /** What a payment would cost; undefined when the chain cannot be asked now. */
  quote(request: QuoteInput, context: { log: Logger }): Promise<PrepareResult | undefined>;
  /** Whether the server answers. */
  ping(): Promise<void>;
  /** The signers as the signing worker sees them. */
  readiness(): Promise<ReadinessResult>;
}

export function createTemporalGateway({
  client,
  decisionWaitMs,
  accountKeyWaitMs = defaultAccountKeyWaitMs,
  log,
}: {
  client: Client;
  decisionWaitMs: number;
  accountKeyWaitMs?: number;
  log: Pick<Logger, 'warn'>;
}): TemporalGateway {
  const { workflow } = client;
  const within = <T>(waitMs: number, call: () => Promise<T>) => withinMs(client.connection as Connection, waitMs, call);
  /** Makes a call on which nothing depends. @param loss what is logged when it fails */
  async function hint(loss: string, workflowId: string, call: () => Promise<unknown>): Promise<void> {
    try {
      await within(signalWaitMs, call);
    } catch (error) {
      log.warn({ err: error, workflow_id: workflowId }, loss);
    }
  }
  /** Starts the workflow of a delivery, or finds it: whoever else starts deliveries may be faster, and it may have ended. */
  async function startDelivery(row: DeliveryRow): Promise<void> {
    try {
      await workflow.start(workflowNames.webhookDelivery, {
        ...webhookDeliveryStart(row),
        workflowIdConflictPolicy: 'USE_EXISTING',
      });
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
  }
  return {
    decisionWaitMs,

    async decideTransaction(row, { log }) {
      noteInLog({ transaction_id: row.id, agent_id: row.agent_id, chain: row.chain });
      try {
        const startWorkflowOperation = new WithStartWorkflowOperation(workflowNames.transaction, {
          ...transactionStart(row),
          workflowIdConflictPolicy: 'USE_EXISTING',
        });
        await within(decisionWaitMs, () =>
          workflow.executeUpdateWithStart(messageNames.policyDecision, {
            updateId: 'policy',
            startWorkflowOperation,
          }),
        );
        return 'decided';
      } catch (error) {
        log.warn({ err: error, transaction_id: row.id }, 'no policy decision in time; the stored row will be taken up');
        return 'undecided';
      }
    },

    tellAnswer: (paymentId, decision) =>
      hint('the payment was not told of the answer; it will find it', paymentId, () =>
        workflow.getHandle(paymentId).signal(decision === 'approved' ? messageNames.approve : messageNames.reject),
      ),

    tellReplace: (transactionId) =>
      hint('the payment was not told what is wanted; it will find it', transactionId, () =>
        workflow.getHandle(transactionId).signal(messageNames.replace),
      ),

    tellFreeze: () =>
      hint('the signers were not told what is frozen; they will be within 15 seconds', freezeWorkflowId, () =>
        startFreeze(client),
      ),

    async freezeProgress() {
      try {
        return await within(signalWaitMs, () =>
          workflow.getHandle(freezeWorkflowId).query<FreezeProgress>(messageNames.freezeProgress),
        );
      } catch {
        return undefined;
      }
    },

    async payX402(row, { log }) {
      noteInLog({ ledger_id: row.id, agent_id: row.agent_id, chain: row.chain });
      try {
        const startWorkflowOperation = new WithStartWorkflowOperation(workflowNames.x402Payment, {
          ...x402PaymentStart(row),
          workflowIdConflictPolicy: 'USE_EXISTING',
        });
        await within(decisionWaitMs, () =>
          workflow.executeUpdateWithStart(messageNames.authorization, {
            updateId: 'authorization',
            startWorkflowOperation,
          }),
        );
      } catch (error) {
        log.warn({ err: error, ledger_id: row.id }, 'no authorisation in time; the stored row will be taken up');
      }
    },

    startSession: (row) =>
      hint('no workflow was started for the session; the stored row will be taken up', row.id, () =>
        workflow.start(workflowNames.x402Session, {
          ...x402SessionStart(row),
          workflowIdConflictPolicy: 'USE_EXISTING',
        }),
      ),

    tellSessionEnded: (sessionId) =>
      hint('the session was not told that it was deleted; it will find it', sessionId, () =>
        workflow.getHandle(sessionId).signal(messageNames.sessionEnded),
      ),

    async deliver(row, { log }) {
      try {
        await within(signalWaitMs, () => startDelivery(row));
        await within(deliveryWaitMs - signalWaitMs, () => workflow.getHandle(row.id).result());
      } catch (error) {
        // However it ends, the row says so.
        if (error instanceof WorkflowFailedError) return;
        log.warn({ err: error, delivery_id: row.id }, 'the delivery has not ended in time; the stored row goes on');
      }
    },

    async makeAccountKey({ accountId }) {
      const input: AccountKeyInput = { accountId };
      try {
        return await within(accountKeyWaitMs, () =>
          workflow.execute<(input: AccountKeyInput) => Promise<AccountKeyResult>>(workflowNames.accountKey, {
            workflowId: accountKeyWorkflowId(accountId),
            taskQueue: queues.wallet,
            args: [input],
            workflowIdConflictPolicy: 'USE_EXISTING',
            staticSummary: `Key of ${accountId}, made by the three signers together`,
          }),
        );
      } catch (error) {
        throw new PurserError(
          'service_unavailable',
          "The account's key is not made yet: it needs all three signers. Nothing was stored; try again.",
          { retryAfterSeconds: 5, cause: error },
        );
      }
    },

    async balances(input) {
      try {
        return await within(chainAnswerMs, () =>
          workflow.execute<(input: BalancesInput) => Promise<ChainBalances[]>>(workflowNames.balances, {
            workflowId: `balances/${randomUUID()}`,
            taskQueue: queues.wallet,
            args: [input],
            workflowExecutionTimeout: questionTimeoutMs,
            staticSummary: `Balances of ${input.owner}`,
          }),
        );
      } catch (error) {
        throw new PurserError('service_unavailable', 'The chains cannot be asked now. Try again.', {
          retryAfterSeconds: 2,
          cause: error,
        });
      }
    },

    async quote(input, { log }) {
      try {
        return await within(chainAnswerMs, () =>
          workflow.execute<(input: QuoteInput) => Promise<PrepareResult>>(workflowNames.quote, {
            workflowId: `quote/${randomUUID()}`,
            taskQueue: queues.wallet,
            args: [input],
            workflowExecutionTimeout: questionTimeoutMs,
            staticSummary: `What a payment of ${input.token.symbol} on ${input.chain} would cost`,
          }),
        );
      } catch (error) {
        log.warn({ err: error, chain: input.chain }, 'the chain could not be asked about a payment');
        return undefined;
      }
    },

    async ping() {
      await within(pingWaitMs, () => client.workflowService.describeNamespace({ namespace: client.options.namespace }));
    },

    readiness() {
      return within(readinessWaitMs, () =>
        workflow.execute<() => Promise<ReadinessResult>>(workflowNames.readiness, {
          workflowId: `readiness/${randomUUID()}`,
          taskQueue: queues.wallet,
          workflowExecutionTimeout: readinessTimeoutMs,
        }),
      );
    },
  };
}

/**
 * The SDK repeats a failed call by itself: the deadline bounds each of them, the signal the whole.
 */
async function withinMs<T>(connection: Connection, waitMs: number, call: () => Promise<T>): Promise<T> {
  const signal = AbortSignal.timeout(waitMs);
  return connection.withAbortSignal(signal, () => connection.withDeadline(Date.now() + waitMs, call));
}
