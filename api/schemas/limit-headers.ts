import { z } from 'zod';

/**
 * What is left of the limits of requests, with every answer to whoever has limits of their number
 * (draft-ietf-httpapi-ratelimit-headers-06).
 */
export const limitHeaders = {
  'RateLimit-Limit': z
    .int()
    .min(1)
    .optional()
    .meta({
      header: { id: 'RateLimit-Limit' },
      description:
        'Requests that the limit allows which is nearest to its end. Absent, as the other three, where nothing limits their number.',
    }),
  'RateLimit-Remaining': z
    .int()
    .min(0)
    .optional()
    .meta({ header: { id: 'RateLimit-Remaining' }, description: 'Requests that would pass now, after this one.' }),
  'RateLimit-Reset': z
    .int()
    .min(0)
    .optional()
    .meta({
      header: { id: 'RateLimit-Reset' },
      description:
        'Whole seconds until some of it comes back: of a minute, which slides, when its oldest request is a minute old; of a day, when it ends (UTC).',
    }),
  'RateLimit-Policy': z
    .string()
    .optional()
    .meta({
      header: { id: 'RateLimit-Policy' },
      description: 'All limits of the number of requests, each with its seconds.',
      example: '60;w=60, 10000;w=86400',
    }),
};
