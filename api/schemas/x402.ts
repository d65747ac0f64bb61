import { z } from 'zod';
import { sessionStatuses } from '../../shared/db/x402-sessions.ts';
import { listOfOnes, wholeNumber } from '../../shared/domain/policy/rule-fields.ts';
import { amount, chainId, instant, listOf, optional, pageParameters, paymentApproval } from './common.ts';
import { requestBody, requestHeaders, requestMethod } from './target-request.ts';

const shortestSeconds = 60;
/** 30 days. */
const longestSeconds = 2_592_000;
const maxAllowedUrls = 100;

const agentId = z.string().meta({
  description: 'Agent whose wallet pays.',
  example: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z',
});
const sessionId = z.string().meta({ description: 'Identifier, `sess_…`.', example: 'sess_01kahvd1r0fv2t5c7m4y2q8s3z' });
const ledgerId = z.string().meta({ description: 'Identifier, `led_…`.', example: 'led_01kahvd1r0fv2t5c7m4y2q8s3z' });

export const createSessionBody = z
  .strictObject({
    agent_id: agentId,
    budget_limit: amount({
      description:
        'The most that all payments together may take, fees included; more than zero, and not more than the wallet has to spare now. It is held until the session ends.',
      example: '5',
    }),
    chain: chainId,
    token: optional(
      z.string().meta({
        description:
          'Symbol, in any case, of a token that is paid by signed authorisation (EIP-3009). Default: `USDC`.',
        example: 'USDC',
      }),
    ),
    ttl_seconds: wholeNumber({
      min: shortestSeconds,
      max: longestSeconds,
      description: 'The session expires after so many seconds.',
    }),
    allowed_urls: optional(
      listOfOnes(z.string().meta({ example: 'https://api.example.org/v1' }), {
        max: maxAllowedUrls,
        description:
          'What may be paid for: origins, or origins with a path that stands for everything below it. https only; no query, fragment or user info. Left out: any URL.',
      }),
    ),
  })
  .meta({
    example: {
      agent_id: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z',
      budget_limit: '5',
      chain: 'eip155:31337',
      ttl_seconds: 3600,
      allowed_urls: ['https://api.example.org/v1'],
    },
  });
export type CreateSessionBody = z.output<typeof createSessionBody>;

const status = z.enum(sessionStatuses);

export const listSessionsQuery = z.strictObject({
  ...pageParameters,
  agent_id: z.string().optional().meta({ description: 'Only sessions of this agent.' }),
  status: status.optional().meta({ description: 'Only sessions with this status.' }),
});

export const listX402PaymentsQuery = z.strictObject(pageParameters);

export const payBody = z
  .strictObject({
    target_url: z.string().meta({
      description: 'What is to be paid for: a URL that answers 402 with what it wants. https only.',
      example: 'https://api.example.org/v1/weather',
    }),
    method: requestMethod,
    headers: optional(requestHeaders),
    body: optional(requestBody),
    max_amount: optional(amount({ description: 'Offers of more are not accepted; without the fee.', example: '0.05' })),
  })
  .refine(({ method, body }) => body === undefined || (method !== 'GET' && method !== 'HEAD'), {
    error: 'cannot be sent with GET or HEAD. Give another method.',
    path: ['body'],
  })
  .meta({ example: { target_url: 'https://api.example.org/v1/weather' } });
export type PayBody = z.output<typeof payBody>;

const money = (description: string, example: string) => z.string().meta({ description, example });

export const session = z
  .object({
    id: sessionId,
    agent_id: agentId,
    budget_limit: money('In canonical form.', '5'),
    budget_spent: money('Taken by payments and their fees, but for those that came to nothing.', '0.25'),
    budget_remaining: money('What is left.', '4.75'),
    chain: chainId,
    token: z.string().meta({ example: 'USDC' }),
    status: status.meta({
      description: 'By the clock. A session without budget left stays `active`.',
      example: 'active',
    }),
    allowed_urls: z
      .array(z.string())
      .nullable()
      .meta({ description: 'As they are compared; null: any URL.', example: ['https://api.example.org/v1'] }),
    expires_at: instant,
    created_at: instant,
  })
  .meta({ id: 'X402Session' });

export const sessionList = listOf(session, 'X402Session');

export const deletedSession = z.object({ id: sessionId, deleted: z.literal(true) }).meta({ id: 'DeletedX402Session' });

const settlement = z
  .object({
    status: z.enum(['unsettled', 'settled', 'expired']).meta({
      description:
        '`settled`: the money has moved, for good. `expired`: nobody has used the authorisation, nobody can any more, and the budget has the amount back.',
      example: 'unsettled',
    }),
    tx_hash: z.string().nullable().meta({ description: 'The transaction that moved it.', example: null }),
    settled_at: instant.nullable().meta({ example: null }),
  })
  .nullable()
  .meta({ description: 'What has become of the authorisation; null before there is one.' });

export const x402Payment = z
  .object({
    ledger_id: ledgerId,
    session_id: sessionId,
    amount: money('What the target gets.', '0.05'),
    fee_amount: money('Taken from the budget besides.', '0'),
    fee_rate: money('Percent.', '0'),
    token: z.string().meta({ example: 'USDC' }),
    chain: chainId,
    status: z.enum(['completed', 'pending', 'failed']).meta({
      description:
        '`completed`: the authorisation is here to be sent, and the budget was charged. `pending`: it waits for a person or for the signers; read it again. `failed`: nothing was signed, and nothing is charged.',
      example: 'completed',
    }),
    status_detail: z.enum(['created', 'awaiting_approval', 'signing', 'completed', 'failed']).meta({
      description: 'Where it stands.',
      example: 'completed',
    }),
    payment_signature: z.string().nullable().meta({
      description:
        'Send it once, as the header that `payment_header` names, with the same request to `target_url`, before `valid_before`. Whoever has it can have it paid, so follow no redirect with it. Null until it is there, and for whoever may not pay.',
      example: 'eyJ4NDAyVmVyc2lvbiI6Mn0=',
    }),
    payment_header: z.enum(['PAYMENT-SIGNATURE', 'X-PAYMENT']).meta({
      description: '`X-PAYMENT` for targets that speak version 1.',
      example: 'PAYMENT-SIGNATURE',
    }),
    x402_version: z.union([z.literal(1), z.literal(2)]).meta({ example: 2 }),
    target_url: z.string().meta({ example: 'https://api.example.org/v1/weather' }),
    method: z.string().meta({ example: 'GET' }),
    pay_to: z.string().meta({ example: '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF' }),
    valid_before: instant.nullable().meta({
      description: 'From then on the authorisation is worth nothing; null before there is one.',
    }),
    settlement,
    failure_code: z
      .enum([
        'policy_violation',
        'approval_rejected',
        'approval_timeout',
        'agent_inactive',
        'session_expired',
        'signing_failed',
      ])
      .nullable()
      .meta({ description: 'Why it failed; null unless it has.', example: null }),
    failure_message: z.string().nullable().meta({ description: 'The same in words.', example: null }),
    approval: paymentApproval,
    created_at: instant,
    updated_at: instant,
  })
  .meta({ id: 'X402Payment' });

export const x402PaymentList = listOf(x402Payment, 'X402Payment');
