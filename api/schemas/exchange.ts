import { z } from 'zod';

export const exchangeBody = z.strictObject({
  exchange_code: z.string().meta({
    description: 'The code with which the sign-in came back: in the query of the console, in JSON, or on the page.',
    example: 'purser_code_…',
  }),
});
