import { z } from 'zod';

const timestamp = z.iso.datetime({ offset: true });

function instantParameter(description: string) {
  return z
    .string()
    .transform((text, context) => {
      if (timestamp.safeParse(text).success) return new Date(text);
      context.addIssue({
        code: 'custom',
        message:
          'must be an instant in ISO 8601 with Z or an offset, such as 2026-03-01T12:00:00Z. A + must be written as %2B.',
      });
      return z.NEVER;
    })
    .optional()
    .meta({ description, example: '2026-03-01T12:00:00.000Z', format: 'date-time' });
}

/** Query parameters of lists that can be cut out by time; `withTimeRange` checks that they do not cross. */
export const timeRange = {
  from: instantParameter('Only entries of this instant and after; ISO 8601 with `Z` or an offset.'),
  to: instantParameter('Only entries of before this instant; ISO 8601 with `Z` or an offset.'),
};

/** Refuses a range in which nothing can be. */
export function withTimeRange<S extends z.ZodObject<typeof timeRange>>(query: S): S {
  return query.superRefine((given, context) => {
    const { from, to } = given as { from?: Date; to?: Date };
    if (from && to && from >= to) context.addIssue({ code: 'custom', path: ['from'], message: 'must be before to.' });
  });
}

const identifier = /^[A-Za-z0-9_-]{1,128}$/;

/** An identifier to filter by; one that nothing has leaves nothing. */
export function idParameter(description: string) {
  return z
    .string()
    .refine((text) => identifier.test(text), {
      error: 'must be an identifier, such as tx_01kahvd1r0fv2t5c7m4y2q8s3z.',
    })
    .optional()
    .meta({ description, pattern: identifier.source });
}
