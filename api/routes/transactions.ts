import { countTransactions, findTransaction, listTransactions } from '../../shared/db/transactions.ts';
import { isId } from '../../shared/ids.ts';
import { renderTransaction } from '../../shared/render-transaction.ts';
import type { Caller } from '../caller.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { replaceTransaction } from '../operations/replace-transaction.ts';
import { simulateTransaction } from '../operations/simulate-transaction.ts';
import {
  type SubmitTransactionDependencies,
  submitTransaction,
  submittedTransaction,
} from '../operations/submit-transaction.ts';
import { readPage } from '../read-page.ts';
import { requireKnownAgent } from '../require-agent.ts';
import { simulation } from '../schemas/simulate.ts';
import {
  createTransactionBody,
  listTransactionsQuery,
  replaceTransactionBody,
  transaction,
  transactionList,
} from '../schemas/transactions.ts';

const tag = 'Transactions';

/** Endpoints of transactions. */
export function createTransactionEndpoints(deps: SubmitTransactionDependencies): Endpoint[] {
  const { pool } = deps;
  const findOwn = async ({ caller, id }: { caller: Caller; id: string }) =>
    isId('tx', id) ? findTransaction(pool, { id, accountId: caller.accountId }) : undefined;
  return [
    defineEndpoint({
      method: 'post',
      path: '/transactions',
      operationId: 'createTransaction',
      tag,
      summary: 'Pay',
      description:
        "Judges the payment by the agent's policies, then signs and sends it. The answer comes as soon as the policies have decided, or after a short wait (2 s by default) as `pending`; it never waits for the chain. Read the transaction again to follow it. A payment that is denied in that time is answered with 400 `policy_violation`, and kept as a failed transaction: `details` says which rule of which policy, its limit, what was attempted, what is used and remains, and when the window next frees something; `details.violations` lists every broken rule. A payment that needs a person is answered as `pending` with `approval`.",
      body: createTransactionBody,
      answer: transaction,
      errors: [
        'invalid_request',
        'agent_inactive',
        'invalid_chain',
        'invalid_token',
        'invalid_amount',
        'invalid_address',
        'policy_violation',
        'insufficient_funds',
      ],
      handle: async ({ caller, acting, body, log, once }) =>
        renderTransaction(await submitTransaction(deps, { accountId: caller.accountId, acting, body, log, once })),
      rebuild: async ({ caller, resourceId: id }) =>
        renderTransaction(await submittedTransaction(deps, { id, accountId: caller.accountId })),
    }),
    defineEndpoint({
      method: 'post',
      path: '/transactions/simulate',
      operationId: 'simulateTransaction',
      tag,
      summary: 'Ask what would become of a payment',
      description:
        'Takes the body of a payment and judges it as things stand: every rule it would break, what is left of every limit, too little balance, the highest fee. Nothing is stored, reserved or counted. What is true now may have changed when you pay.',
      body: createTransactionBody,
      answer: simulation,
      errors: [
        'invalid_request',
        'agent_inactive',
        'invalid_chain',
        'invalid_token',
        'invalid_amount',
        'invalid_address',
      ],
      handle: ({ caller, body, log }) => simulateTransaction(deps, { accountId: caller.accountId, body, log }),
    }),
    defineEndpoint({
      method: 'get',
      path: '/transactions',
      operationId: 'listTransactions',
      tag,
      summary: 'List transactions',
      description: 'Newest first, denied ones included.',
      query: listTransactionsQuery,
      answer: transactionList,
      errors: ['invalid_request'],
      handle: async ({ caller, query }) => {
        const filter = { accountId: caller.accountId, agentId: query.agent_id, status: query.status };
        if (filter.agentId !== undefined)
          await requireKnownAgent(pool, { id: filter.agentId, accountId: caller.accountId });
        return readPage({
          page: query,
          count: () => countTransactions(pool, filter),
          list: (window) => listTransactions(pool, { ...filter, ...window }),
          render: renderTransaction,
        });
      },
    }),
    defineEndpoint({
      method: 'post',
      path: '/transactions/{id}/cancel',
      operationId: 'cancelTransaction',
      tag,
      summary: 'Cancel a payment',
      description:
        'A payment that is not signed yet, nor about to be, has failed with `cancelled` when this answers. One that has been signed may be mined all the same: then a transaction that pays nobody is sent in its place (at its nonce; on Bitcoin with its coins), with higher fees, and the payment ends as `cancelled` or `confirmed` according to which of the two the chain takes; `attempts` lists both. Until then it is answered as `pending`. One that is in a block cannot be cancelled; on Tron none that is signed: 409.',
      body: replaceTransactionBody,
      bodyOptional: true,
      answer: transaction,
      errors: ['invalid_request', 'resource_not_found', 'transaction_not_cancellable'],
      find: findOwn,
      handle: ({ acting, found, once }) => replaceTransaction(deps, { row: found, acting, wish: 'cancel', once }),
    }),
    defineEndpoint({
      method: 'post',
      path: '/transactions/{id}/speed-up',
      operationId: 'speedUpTransaction',
      tag,
      summary: 'Offer higher fees for a payment',
      description:
        "Signs and sends the payment again with higher fees, and at least what the market asks, at the same nonce or with the same coins: only one of its `attempts` can ever be mined. On EVM chains both fees rise by a tenth at least; on Bitcoin by a satoshi a virtual byte at least, out of the change (BIP-125). Nothing can be sped up on Tron: 409. Purser does this by itself for a payment that no block has taken for some time. Where the installation's ceiling or the wallet's money leaves no room for it, the earlier attempt stands and `notice` says why.",
      body: replaceTransactionBody,
      bodyOptional: true,
      answer: transaction,
      errors: ['invalid_request', 'resource_not_found', 'transaction_not_replaceable'],
      find: findOwn,
      handle: ({ acting, found, once }) => replaceTransaction(deps, { row: found, acting, wish: 'speed_up', once }),
    }),
    defineEndpoint({
      method: 'get',
      path: '/transactions/{id}',
      operationId: 'getTransaction',
      tag,
      summary: 'Get a transaction',
      description: 'How a payment stands now.',
      answer: transaction,
      errors: ['invalid_request', 'resource_not_found'],
      find: findOwn,
      handle: async ({ found }) => renderTransaction(found),
    }),
  ];
}
