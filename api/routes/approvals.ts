import {
  type ApprovalRow,
  approvalsOfPayment,
  countApprovals,
  findApproval,
  listApprovals,
} from '../../shared/db/approvals.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { findTransaction } from '../../shared/db/transactions.ts';
import { PurserError } from '../../shared/errors.ts';
import { isId } from '../../shared/ids.ts';
import { renderApproval } from '../../shared/render-approval.ts';
import type { Caller } from '../caller.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { answerPayment } from '../operations/answer-payment.ts';
import { answerRefusal } from '../operations/answer-refusal.ts';
import { type Answer, decideApprovals } from '../operations/decide-approval.ts';
import { readPage } from '../read-page.ts';
import { requireKnownAgent } from '../require-agent.ts';
import { approval, approvalList, decideBody, listApprovalsQuery } from '../schemas/approvals.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';

interface ApprovalDependencies {
  readonly pool: Pool;
  readonly temporal: TemporalGateway;
}

const tag = 'Approvals';
const decidedErrors = [
  'invalid_request',
  'resource_not_found',
  'approval_already_decided',
  'approval_timeout',
] as const;

/** Endpoints of questions to people. */
export function createApprovalEndpoints(deps: ApprovalDependencies): Endpoint[] {
  return [
    ...readEndpoints(deps),
    ...decideEndpoints(deps, 'approved'),
    ...decideEndpoints(deps, 'rejected'),
    ...decidePaymentEndpoints(deps, 'approved'),
    ...decidePaymentEndpoints(deps, 'rejected'),
  ];
}

function readEndpoints({ pool }: ApprovalDependencies): Endpoint[] {
  return [
    defineEndpoint({
      method: 'get',
      path: '/approvals',
      operationId: 'listApprovals',
      tag,
      summary: 'List approvals',
      description:
        'Questions to people, newest first, decided ones included. `status=pending` are those that wait for an answer now.',
      query: listApprovalsQuery,
      answer: approvalList,
      errors: ['invalid_request'],
      handle: async ({ caller, query }) => {
        const filter = { accountId: caller.accountId, agentId: query.agent_id, status: query.status };
        if (filter.agentId !== undefined)
          await requireKnownAgent(pool, { id: filter.agentId, accountId: caller.accountId });
        return readPage({
          page: query,
          count: () => countApprovals(pool, filter),
          list: (window) => listApprovals(pool, { ...filter, ...window }),
          render: renderApproval,
        });
      },
    }),
    defineEndpoint({
      method: 'get',
      path: '/approvals/{id}',
      operationId: 'getApproval',
      tag,
      summary: 'Get an approval',
      description: 'How a question stands: who is asked, how each of them was told, and who has decided what.',
      answer: approval,
      errors: ['invalid_request', 'resource_not_found'],
      find: ({ caller, id }) => find(pool, { caller, id }),
      handle: async ({ found }) => renderApproval(found),
    }),
  ];
}

type Decision = Answer['decision'];
const verbs = { approved: 'approve', rejected: 'reject' } as const;
const effects = {
  approved:
    'As soon as as many approvers as the policy requires have agreed, the payment goes on: it is judged again first, by the policies as they stand then.',
  rejected: 'One rejection ends the payment: it fails with `approval_rejected`, and counts against no limit.',
} as const;
const whoMay =
  'Needs an access token whose verified e-mail address is among `approvers`; an API key never decides. Everybody decides once.';

/** The one question that the path names. */
function decideEndpoints({ pool, temporal }: ApprovalDependencies, decision: Decision): Endpoint[] {
  const verb = verbs[decision];
  return [
    defineEndpoint({
      method: 'post',
      path: `/approvals/{id}/${verb}`,
      operationId: `${verb}Approval` as const,
      tag,
      summary: decision === 'approved' ? 'Approve a payment' : 'Reject a payment',
      description: `${effects[decision]} ${whoMay}`,
      body: decideBody,
      bodyOptional: true,
      answer: approval,
      errors: decidedErrors,
      find: async ({ caller, id }) => {
        const question = await find(pool, { caller, id });
        return question && { question, approver: requireApprover(caller, { asked: [question], about: question.id }) };
      },
      handle: async ({ acting, found: { question, approver }, body, once }) => {
        const answer = {
          approvalId: question.id,
          agentId: question.agent_id,
          approver,
          decision,
          note: body.note || null,
        };
        const result = await decideApprovals(
          { pool, tellAnswer: temporal.tellAnswer },
          { answers: [answer], door: { via: 'bearer', acting }, once },
        );
        if ('refusal' in result) throw answerRefusal(result, { approver });
        return renderApproval(result.approvals[0]!);
      },
    }),
  ];
}

/** All questions of a payment that are put to the caller, together. */
function decidePaymentEndpoints({ pool, temporal }: ApprovalDependencies, decision: Decision): Endpoint[] {
  const verb = verbs[decision];
  return [
    defineEndpoint({
      method: 'post',
      path: `/transactions/{id}/${verb}`,
      operationId: `${verb}Transaction` as const,
      tag,
      summary: decision === 'approved' ? 'Approve a payment by its own id' : 'Reject a payment by its own id',
      description: `Decides every open question about the payment that is put to you and that you have not answered, together; the answer is the one that expires first. ${effects[decision]} ${whoMay}`,
      body: decideBody,
      bodyOptional: true,
      answer: approval,
      errors: decidedErrors,
      find: async ({ caller, id }) => {
        const payment = isId('tx', id) ? await findTransaction(pool, { id, accountId: caller.accountId }) : undefined;
        if (!payment) return undefined;
        const questions = await approvalsOfPayment(pool, { paymentId: payment.id });
        const approver = questions.length > 0 ? requireApprover(caller, { asked: questions, about: id }) : undefined;
        return { transactionId: id, approver };
      },
      handle: async ({ acting, found: { transactionId, approver }, body, once }) => {
        const result =
          approver === undefined
            ? undefined
            : await answerPayment(
                { pool, tellAnswer: temporal.tellAnswer },
                { paymentId: transactionId, acting, approver, decision, note: body.note || null, once },
              );
        if (approver === undefined || !result)
          throw new PurserError(
            'invalid_request',
            `Payment ${transactionId} needs nobody's approval: no policy asked for one.`,
          );
        if ('refusal' in result) throw answerRefusal(result, { approver });
        return renderApproval(result.approvals[0]!);
      },
    }),
  ];
}

async function find(pool: Pool, { caller, id }: { caller: Caller; id: string }) {
  return isId('apr', id) ? findApproval(pool, { id, accountId: caller.accountId }) : undefined;
}

/** The caller's address, if it is asked. @throws PurserError 403 */
function requireApprover(
  { user }: Caller,
  { asked, about }: { asked: readonly Pick<ApprovalRow, 'approvers'>[]; about: string },
): string {
  const email = user?.email;
  if (email === undefined)
    throw new PurserError(
      'insufficient_permissions',
      'Your e-mail address is not verified, so that it does not show that you are asked.',
    );
  if (asked.some(({ approvers }) => approvers.includes(email))) return email;
  throw new PurserError('insufficient_permissions', `${email} is not asked to approve ${about}.`);
}
