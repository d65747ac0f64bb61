import { z } from 'zod';
import { optional } from './common.ts';
import { requestBody, requestHeaders, requestMethod } from './target-request.ts';

/** Body of a question for a price. */
export const checkBody = z
  .strictObject({
    url: z.string().meta({
      description:
        'What might be paid for. https only, on the public internet, without user, password or fragment; redirects are not followed.',
      example: 'https://api.example.com/data',
    }),
    method: requestMethod,
    headers: optional(requestHeaders),
    body: optional(requestBody),
  })
  .refine(({ method, body }) => body === undefined || (method !== 'GET' && method !== 'HEAD'), {
    error: 'cannot be sent with GET or HEAD. Give another method.',
    path: ['body'],
  })
  .meta({ example: { url: 'https://api.example.com/data' } });
export type CheckBody = z.output<typeof checkBody>;

const told = z.string().nullable();

const checkedOffer = z
  .object({
    scheme: z.string().meta({ example: 'exact' }),
    network: z.string().meta({ description: 'CAIP-2, or as the target wrote it.', example: 'eip155:8453' }),
    asset: z
      .string()
      .meta({ description: 'Contract of the token.', example: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913' }),
    token: told.meta({ description: 'Symbol, if the token is known here.', example: 'USDC' }),
    amount: told.meta({ description: 'In units of the token, if that is known here.', example: '0.01' }),
    pay_to: z.string().meta({ example: '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF' }),
    acceptable: z.boolean().meta({ description: 'Whether a session on that chain could pay it.', example: true }),
    reason: told.meta({ description: 'Why it could not.', example: null }),
  })
  .meta({ id: 'X402Offer' });

export const checkedTarget = z
  .object({
    url: z.string().meta({ example: 'https://api.example.com/data' }),
    payment_required: z
      .boolean()
      .meta({ description: 'Whether the target asked for a payment (402) just now.', example: true }),
    status: z.int().meta({ description: 'HTTP status of its answer.', example: 402 }),
    x402_version: z
      .union([z.literal(1), z.literal(2)])
      .nullable()
      .meta({ example: 2 }),
    offers: z.array(checkedOffer).meta({ description: 'Ways to pay, in the order of the target.' }),
  })
  .meta({ id: 'X402Check' });

export const feeTiers = z
  .object({
    data: z
      .array(
        z.object({
          from_amount: z
            .string()
            .meta({ description: 'Amount in units of the token from which the rate holds.', example: '0' }),
          fee_rate: z.string().meta({ description: 'Percent of the amount, rounded down.', example: '0' }),
        }),
      )
      .meta({ description: 'In ascending order; the first one begins at 0.' }),
  })
  .meta({ id: 'X402FeeTiers' });
