import { z } from 'zod';
import { approvalStatuses } from '../../shared/domain/approval.ts';
import { chainId, instant, listOf, optional, pageParameters, text } from './common.ts';

const status = z.enum(approvalStatuses);
const approvalId = z.string().meta({ description: 'Identifier, `apr_…`.', example: 'apr_01kahvd1r0fv2t5c7m4y2q8s3z' });
const address = z.string().meta({ description: 'E-mail address, in lower case.', example: 'ops@example.com' });

export const listApprovalsQuery = z.strictObject({
  ...pageParameters,
  agent_id: z.string().optional().meta({ description: 'Only questions about payments of this agent.' }),
  status: status.optional().meta({ description: 'Only questions with this status.' }),
});

export const decideBody = z
  .strictObject({
    note: optional(
      text({
        maxLength: 1024,
        multiline: true,
        description: 'Why; kept with the decision, and told with the payment when it was rejected.',
        example: 'Agreed with the supplier by telephone.',
      }),
    ),
  })
  .meta({ example: { note: 'Agreed with the supplier by telephone.' } });

const decision = z.object({
  approver: address,
  decision: z.enum(['approved', 'rejected']).meta({ example: 'approved' }),
  note: z.string().nullable().meta({ example: null }),
  decided_at: instant,
});

const notice = z.object({
  approver: address,
  status: z.enum(['waiting', 'sent', 'failed']).meta({ description: 'How the mail to this person fares.' }),
  error: z.string().nullable().meta({ description: 'What the mail server said last, if it refused.', example: null }),
  sent_at: instant.nullable(),
});

export const approval = z
  .object({
    id: approvalId,
    transaction_id: z.string().nullable().meta({
      description: 'The payment, where it is a transaction.',
      example: 'tx_01kahvd1r0fv2t5c7m4y2q8s3z',
    }),
    ledger_id: z
      .string()
      .nullable()
      .meta({ description: 'The payment, where it is one out of an x402 session.', example: null }),
    agent_id: z.string().meta({ example: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    policy_id: z
      .string()
      .meta({ description: 'The policy that wants a person asked.', example: 'pol_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    status: status.meta({
      description:
        '`approved` when as many have agreed as are required; `rejected` by one rejection; `expired` when the time was over before; `cancelled` when the question was withdrawn.',
      example: 'pending',
    }),
    amount: z.string().meta({ example: '250' }),
    token: z.string().meta({ example: 'USDC' }),
    chain: chainId,
    to_address: z.string().meta({ example: '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF' }),
    target_url: z.string().nullable().meta({ description: 'What an x402 payment pays for.', example: null }),
    threshold: z.string().meta({ description: "The policy's: larger amounts need a person.", example: '100' }),
    required_approvals: z.int().meta({ description: 'How many of the approvers must agree.', example: 1 }),
    approvers: z.array(address).meta({ description: 'Who is asked.' }),
    decisions: z.array(decision).meta({ description: 'What has been decided, in order; one for each person.' }),
    notices: z.array(notice).meta({ description: 'How each person was told.' }),
    expires_at: instant.meta({ description: 'From this instant on nobody can decide it any more.' }),
    created_at: instant,
    decided_at: instant.nullable().meta({ description: 'When it came to its end; null while it is pending.' }),
  })
  .meta({ id: 'Approval' });

export const approvalList = listOf(approval, 'Approval');
