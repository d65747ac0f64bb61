import type { Pool } from '../../shared/db/pool.ts';
import { defineEndpoint, defineOpenEndpoint, type Endpoint } from '../endpoint.ts';
import { refreshTokens } from '../operations/refresh-tokens.ts';
import { signOut } from '../operations/sign-out.ts';
import { refreshBody, signedOut, tokenAnswer } from '../schemas/auth.ts';
import { emptyBody } from '../schemas/deliveries.ts';
import type { AccessTokens } from '../tokens/access-tokens.ts';
import { invalidToken } from '../unauthenticated.ts';

const tag = 'Sign-in';

/** Endpoints of whoever is signed in already. */
export function createAuthTokenEndpoints({
  pool,
  tokens,
}: {
  pool: Pool;
  tokens: AccessTokens | undefined;
}): Endpoint[] {
  return [
    defineOpenEndpoint({
      method: 'post',
      path: '/auth/refresh',
      operationId: 'refreshTokens',
      tag,
      summary: 'Refresh tokens',
      description:
        'A new access token for a refresh token, which is used by it: the answer holds its successor. Whoever sends the same one again within 30 seconds, as after a lost answer, gets the same successor; later, somebody else may have it, and the session is over for both.',
      isAnswerSecret: true,
      body: refreshBody,
      answer: tokenAnswer,
      errors: ['invalid_request'],
      handle: ({ body: { refresh_token: token }, origin, idempotencyKey }) => {
        if (!tokens)
          throw invalidToken('This service gives no tokens: it has no keys for them.', { reason: 'token_not_taken' });
        return refreshTokens({ pool, tokens }, { token, origin, idempotencyKey, path: '/api/v1/auth/refresh' });
      },
    }),
    defineEndpoint({
      method: 'post',
      path: '/auth/logout',
      operationId: 'signOut',
      tag,
      summary: 'Sign out',
      description:
        'Ends the session that the access token is of: neither its access tokens nor its refresh tokens are taken any more.',
      body: emptyBody,
      bodyOptional: true,
      answer: signedOut,
      errors: ['invalid_request'],
      handle: async ({ caller: { accountId, user }, acting }) => {
        const { sessionId } = user!;
        await signOut(pool, { accountId, sessionId, acting });
        return { id: sessionId, revoked: true };
      },
    }),
  ];
}
