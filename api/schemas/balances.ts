import { z } from 'zod';
import { chainId } from './common.ts';

const amount = z.string().nullable();

const balance = z
  .object({
    chain: chainId,
    token: z.string().meta({ example: 'USDC' }),
    amount: amount.meta({ description: 'What the wallet holds; null when it cannot be read.', example: '100' }),
    available: amount.meta({
      description: 'What a new payment may spend: `amount` less what is held for payments under way.',
      example: '87.5',
    }),
    reserved: amount.meta({
      description: 'Amounts and highest fees of payments under way that the balance does not show yet.',
      example: '12.5',
    }),
    error: z.string().optional().meta({ description: 'Why the balance cannot be read; the others are right.' }),
  })
  .meta({ id: 'Balance' });

export const balances = z
  .object({ data: z.array(balance).meta({ description: 'By chain and token, as this installation lists them.' }) })
  .meta({ id: 'Balances' });
