import { z } from 'zod';
import { amount, chainId, instant, listOf, optional, pageParameters, paymentApproval, text } from './common.ts';
import { warnings } from './simulate.ts';

export const createTransactionBody = z
  .strictObject({
    agent_id: z.string().meta({ description: 'Agent whose wallet pays.', example: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    direction: z.literal('outbound').meta({ example: 'outbound' }),
    type: z.literal('transfer').meta({ example: 'transfer' }),
    from_address: optional(
      z.string().meta({
        description: "The agent's wallet address, if you want it checked. Any other is refused.",
        example: '0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf',
      }),
    ),
    to_address: z.string().meta({
      description:
        'Recipient, an address of the chain that is named. On EVM chains 0x and 40 hexadecimal digits, of which mixed case must be a right EIP-55 checksum; on Bitcoin any kind (P2PKH, P2SH, P2WPKH, P2WSH, P2TR) of that very network; on Tron base58 (T…). Neither the zero address nor the contract of the token; on Bitcoin and Tron not the wallet itself.',
      example: '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF',
    }),
    amount: amount({
      description:
        'Decimal string, more than zero, with at most as many fraction digits as the token has. Nothing is rounded.',
      example: '12.5',
    }),
    token: z.string().meta({ description: 'Symbol, in any case.', example: 'USDC' }),
    chain: chainId,
    memo: optional(
      text({
        maxLength: 512,
        multiline: true,
        description: 'A note for yourself. It does not go on chain.',
        example: 'Invoice 1042',
      }),
    ),
  })
  .meta({
    example: {
      agent_id: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z',
      direction: 'outbound',
      type: 'transfer',
      to_address: '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF',
      amount: '12.5',
      token: 'USDC',
      chain: 'eip155:31337',
    },
  });
export type CreateTransactionBody = z.output<typeof createTransactionBody>;

/** Nothing has to be said; what is said is refused. */
export const replaceTransactionBody = z.strictObject({}).meta({ example: {} });

const status = z.enum(['pending', 'confirmed', 'failed']);

export const listTransactionsQuery = z.strictObject({
  ...pageParameters,
  agent_id: z.string().optional().meta({ description: 'Only payments of this agent.' }),
  status: status.optional().meta({ description: 'Only payments with this status.' }),
});

const statusDetail = z.enum([
  'created',
  'policy_check',
  'awaiting_approval',
  'signing',
  'broadcast',
  'confirming',
  'confirmed',
  'failed',
]);

const failureCode = z.enum([
  'policy_violation',
  'approval_rejected',
  'approval_timeout',
  'insufficient_funds',
  'agent_inactive',
  'simulation_failed',
  'reverted',
  'replaced',
  'dropped',
  'cancelled',
  'signing_failed',
]);

const wei = z.string().nullable().meta({
  description: 'In wei for a unit of gas; null but on EVM chains.',
  example: '2000000000',
});

const attempt = z.object({
  hash: z.string().meta({
    description: 'As explorers of the chain show it; with 0x on EVM chains only.',
    example: '0x9f4b…',
  }),
  purpose: z.enum(['payment', 'cancel']).meta({
    description: '`cancel` pays nobody: it only takes what the payment would have needed, its nonce or its coins.',
    example: 'payment',
  }),
  status: z.enum(['pending', 'mined', 'reverted', 'replaced']).meta({
    description: '`replaced`: another one has taken its place for good, or it has expired.',
    example: 'pending',
  }),
  max_fee_per_gas: wei,
  max_priority_fee_per_gas: wei,
  fee_rate: z.string().nullable().meta({
    description: 'In satoshis a virtual byte, rounded to three decimals; null but on Bitcoin.',
    example: null,
  }),
  expires_at: instant.nullable().meta({
    description: 'No later block takes it; null where transactions do not expire, as everywhere but on Tron.',
    example: null,
  }),
  block_number: z.int().nullable().meta({ example: null }),
  created_at: instant,
});

export const transaction = z
  .object({
    id: z.string().meta({ description: 'Identifier, `tx_…`.', example: 'tx_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    hash: z.string().nullable().meta({
      description: 'Hash on chain (on Bitcoin and Tron without 0x); null before it was sent.',
      example: null,
    }),
    agent_id: z.string().meta({ example: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    direction: z.literal('outbound'),
    type: z.literal('transfer'),
    from_address: z.string().meta({ example: '0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf' }),
    to_address: z.string().meta({ example: '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF' }),
    amount: z.string().meta({ description: 'In canonical form: `1.50` is answered as `1.5`.', example: '12.5' }),
    token: z.string().meta({ example: 'USDC' }),
    chain: chainId,
    fee: z
      .string()
      .nullable()
      .meta({ description: "Network fee paid, in the chain's own coin; null until it is known.", example: null }),
    status: status.meta({
      description: 'A payment stays `pending` until it is proven final or impossible.',
      example: 'pending',
    }),
    status_detail: statusDetail.meta({ description: 'Where the payment stands.', example: 'policy_check' }),
    failure_code: failureCode.nullable().meta({ description: 'Why it failed; null unless it has.', example: null }),
    failure_message: z.string().nullable().meta({ description: 'The same in words.', example: null }),
    memo: z.string().nullable().meta({ example: 'Invoice 1042' }),
    nonce: z.int().nullable().meta({
      description: "The payment's place in the order of its wallet; null before it has one, and on chains without.",
      example: null,
    }),
    block_number: z.int().nullable().meta({ description: 'Block that holds it.', example: null }),
    confirmations: z.int().min(0).meta({ description: 'Blocks on top, that one counted.', example: 0 }),
    approval: paymentApproval,
    notice: z.string().nullable().meta({
      description:
        'What a pending payment waits for, in words, where that is nothing usual: money, lower fees, a node.',
      example: null,
    }),
    attempts: z.array(attempt).meta({
      description:
        'Every transaction that was signed for the payment, oldest first. One at most is ever mined: all have the same nonce, or spend the same coins.',
      example: [],
    }),
    warnings: warnings.meta({ description: 'What stopped nothing, but should be known.', example: [] }),
    created_at: instant,
    updated_at: instant,
  })
  .meta({ id: 'Transaction' });

export const transactionList = listOf(transaction, 'Transaction');
