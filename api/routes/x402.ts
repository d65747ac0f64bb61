import {
  countX402Payments,
  findX402Payment,
  listX402Payments,
  type X402PaymentRow,
} from '../../shared/db/x402-payments.ts';
import { countSessions, findSession, listSessions } from '../../shared/db/x402-sessions.ts';
import { isId } from '../../shared/ids.ts';
import { renderSession, renderX402Payment } from '../../shared/render-x402.ts';
import { access, refusalOf } from '../access.ts';
import type { Caller } from '../caller.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { type CreateSessionDependencies, createSession } from '../operations/create-x402-session.ts';
import { type DeleteSessionDependencies, deleteSession } from '../operations/delete-x402-session.ts';
import { type PayX402Dependencies, payX402 } from '../operations/pay-x402.ts';
import { answerX402Payment } from '../operations/x402-payment-answer.ts';
import { readPage } from '../read-page.ts';
import { requireKnownAgent } from '../require-agent.ts';
import {
  createSessionBody,
  deletedSession,
  listSessionsQuery,
  listX402PaymentsQuery,
  payBody,
  session,
  sessionList,
  x402Payment,
  x402PaymentList,
} from '../schemas/x402.ts';

type X402Dependencies = CreateSessionDependencies & DeleteSessionDependencies & PayX402Dependencies;

const tag = 'x402';

/** Endpoints of x402 sessions and of the payments out of them. */
export function createX402Endpoints(deps: X402Dependencies): Endpoint[] {
  return [...sessionEndpoints(deps), ...paymentEndpoints(deps)];
}

function sessionEndpoints(deps: X402Dependencies): Endpoint[] {
  const { pool } = deps;
  const find = findOwn(deps);
  return [
    defineEndpoint({
      method: 'post',
      path: '/x402/sessions',
      operationId: 'createX402Session',
      tag,
      summary: 'Give an agent a budget for web APIs',
      description:
        "Holds the budget in the agent's wallet until the session expires or is deleted: what the wallet holds now, less what other payments and sessions hold, must cover it. Payments out of the session are judged by the agent's policies besides. Only on chains that have a token which is paid by signed authorisation (EIP-3009); on others, such as Bitcoin and Tron: 400 `invalid_chain`.",
      body: createSessionBody,
      answer: session,
      errors: [
        'invalid_request',
        'agent_inactive',
        'invalid_chain',
        'invalid_token',
        'invalid_amount',
        'insufficient_funds',
      ],
      handle: async ({ caller, acting, body, once }) =>
        renderSession(
          await createSession(deps, { accountId: caller.accountId, plan: caller.account.plan, acting, body, once }),
        ),
    }),
    defineEndpoint({
      method: 'get',
      path: '/x402/sessions',
      operationId: 'listX402Sessions',
      tag,
      summary: 'List sessions',
      description: 'Newest first, ended ones included.',
      query: listSessionsQuery,
      answer: sessionList,
      errors: ['invalid_request'],
      handle: async ({ caller, query }) => {
        const filter = { accountId: caller.accountId, agentId: query.agent_id, status: query.status };
        if (filter.agentId !== undefined)
          await requireKnownAgent(pool, { id: filter.agentId, accountId: caller.accountId });
        return readPage({
          page: query,
          count: () => countSessions(pool, filter),
          list: (window) => listSessions(pool, { ...filter, ...window }),
          render: renderSession,
        });
      },
    }),
    defineEndpoint({
      method: 'get',
      path: '/x402/sessions/{id}',
      operationId: 'getX402Session',
      tag,
      summary: 'Get a session',
      description: 'What is left of its budget, and whether it still is active.',
      answer: session,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: async ({ found }) => renderSession(found),
    }),
    defineEndpoint({
      method: 'delete',
      path: '/x402/sessions/{id}',
      operationId: 'deleteX402Session',
      tag,
      summary: 'End a session',
      description:
        'Nothing more is paid out of it, and what is left of its budget is free in the wallet at once. A payment whose authorisation was issued before may still be settled; one that waits for a person or for the signers comes to nothing. A session that was deleted before is deleted again without effect; one that has expired: 400 `session_expired`.',
      answer: deletedSession,
      errors: ['invalid_request', 'resource_not_found', 'session_expired'],
      find,
      handle: async ({ acting, found }) => {
        await deleteSession(deps, found, { acting });
        return { id: found.id, deleted: true };
      },
    }),
  ];
}

function paymentEndpoints(deps: X402Dependencies): Endpoint[] {
  const { pool } = deps;
  const find = findOwn(deps);
  return [
    defineEndpoint({
      method: 'post',
      path: '/x402/sessions/{id}/pay',
      operationId: 'payX402',
      tag,
      summary: 'Pay a web API',
      description:
        "Asks `target_url` what it wants, by the request that you are going to repeat with the payment; chooses the cheapest offer on the session's chain in its token; judges it by the agent's policies; takes it and the fee out of the budget; and signs the authorisation. Repeat the request to the target once with `payment_signature` in the header that `payment_header` names. What was not used when its time is over goes back to the budget: after a 402 with the payment, read `settlement` before you pay again. `pending`: it waits for a person or for the signers; read the payment again. Redirects are not followed, and only public addresses are asked. What the policies deny is answered with 400 `policy_violation`, and kept as a failed payment.",
      body: payBody,
      answer: x402Payment,
      errors: [
        'invalid_request',
        'resource_not_found',
        'invalid_amount',
        'invalid_token',
        'agent_inactive',
        'session_expired',
        'url_not_allowed',
        'target_unreachable',
        'payment_not_required',
        'no_acceptable_offer',
        'policy_violation',
        'budget_exceeded',
      ],
      find,
      handle: async ({ acting, found, body, log, once }) =>
        answerX402Payment(await payX402(deps, { session: found, acting, body, log, once })),
      rebuild: async ({ caller, resourceId: id }) => {
        const row = await findX402Payment(pool, { id, accountId: caller.accountId });
        if (!row) throw new Error(`Payment ${id} has gone, and its key is still there.`);
        return answerX402Payment(row);
      },
    }),
    defineEndpoint({
      method: 'get',
      path: '/x402/sessions/{id}/payments',
      operationId: 'listX402Payments',
      tag,
      summary: "List a session's payments",
      description: 'Newest first, denied ones included. Signatures are shown to whoever may pay.',
      query: listX402PaymentsQuery,
      answer: x402PaymentList,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: ({ caller, found: { id: sessionId }, query }) =>
        readPage({
          page: query,
          count: () => countX402Payments(pool, { sessionId }),
          list: (window) => listX402Payments(pool, { sessionId, ...window }),
          render: showTo(caller),
        }),
    }),
    defineEndpoint({
      method: 'get',
      path: '/x402/sessions/{id}/payments/{ledger_id}',
      operationId: 'getX402Payment',
      tag,
      summary: "Get a session's payment",
      description:
        'How it stands now: its signature once there is one, for whoever may pay, and what has become of that.',
      answer: x402Payment,
      errors: ['invalid_request', 'resource_not_found'],
      find: async ({ caller, id: sessionId, innerId: id }) => {
        const row = isId('led', id) ? await findX402Payment(pool, { id, accountId: caller.accountId }) : undefined;
        return row?.session_id === sessionId ? row : undefined;
      },
      handle: async ({ caller, found }) => showTo(caller)(found),
    }),
  ];
}

const findOwn =
  ({ pool }: Pick<X402Dependencies, 'pool'>) =>
  async ({ caller, id }: { caller: Caller; id: string }) =>
    isId('sess', id) ? findSession(pool, { id, accountId: caller.accountId }) : undefined;

/** A signature is as good as money until it is used: it is for whoever may pay, and not for whoever may only look. */
function showTo(caller: Caller) {
  const mayPay = refusalOf(access.payX402, caller) === undefined;
  return (row: X402PaymentRow) => ({ ...renderX402Payment(row), ...(!mayPay && { payment_signature: null }) });
}
