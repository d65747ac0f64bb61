import { z } from 'zod';

/** What proves later who has signed in, and whom it speaks for. */
export const tokenAnswer = z
  .object({
    access_token: z.string().meta({
      description:
        'Send it as `Authorization: Bearer`. A JWT (RFC 7519), signed with ES256; its keys are at `/.well-known/jwks.json`.',
      example: 'eyJhbGciOiJFUzI1NiIsImtpZCI6Ik…',
    }),
    token_type: z.literal('Bearer'),
    expires_in: z.int().min(1).meta({ description: 'Seconds that the access token is good for.', example: 3600 }),
    refresh_token: z.string().meta({
      description: 'Good once, for the next pair of tokens. Keep it where nobody else reads it.',
      example: 'purser_refresh_…',
    }),
    refresh_expires_in: z
      .int()
      .min(0)
      .meta({ description: 'Seconds that the refresh token is good for.', example: 2_592_000 }),
    user: z.object({
      id: z.string().meta({ description: 'Identifier, `user_…`.', example: 'user_01kahvd1r0fv2t5c7m4y2q8s3z' }),
      email: z.string().nullable().meta({
        description: 'Null unless the identity provider says that it is verified.',
        example: 'ops@example.com',
      }),
      name: z.string().nullable().meta({ description: 'As the identity provider knows them.', example: 'Ada' }),
    }),
  })
  .meta({ id: 'Tokens', description: 'Tokens of somebody who is signed in.' });
export type TokenAnswer = z.output<typeof tokenAnswer>;

export const refreshBody = z.strictObject({
  refresh_token: z.string().meta({
    description: 'As the last exchange or refresh has answered it.',
    example: 'purser_refresh_…',
    writeOnly: true,
  }),
});

export const signedOut = z
  .object({
    id: z
      .string()
      .meta({ description: 'Identifier of the session, `sid_…`.', example: 'sid_01kahvd1r0fv2t5c7m4y2q8s3z' }),
    revoked: z.literal(true),
  })
  .meta({ id: 'SignedOut', description: 'The session that is over.' });
