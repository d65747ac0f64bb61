import type { Pool } from '../../shared/db/pool.ts';
import { defineOpenEndpoint, type Endpoint } from '../endpoint.ts';
import { exchangeCode } from '../operations/exchange-code.ts';
import { tokenAnswer } from '../schemas/auth.ts';
import { exchangeBody } from '../schemas/exchange.ts';
import type { AccessTokens } from '../tokens/access-tokens.ts';
import { createIssueTokens } from '../tokens/issue-tokens.ts';
import { invalidToken } from '../unauthenticated.ts';

/** The last step of a sign-in, and the first of a session. */
export function createExchangeEndpoint({ pool, tokens }: { pool: Pool; tokens: AccessTokens | undefined }): Endpoint {
  const issueTokens = tokens && createIssueTokens({ tokens });
  return defineOpenEndpoint({
    method: 'post',
    path: '/auth/exchange',
    operationId: 'exchangeCode',
    tag: 'Sign-in',
    summary: 'Exchange a code for tokens',
    description:
      'Begins a session. Open `/auth/oidc/redirect` in a browser (with `?account=acct_…` for one account of several): it leads to the identity provider and back to `/auth/oidc/callback`, which gives a code. The code is good once and for 60 seconds; a second use ends the session that the first began.',
    isAnswerSecret: true,
    body: exchangeBody,
    answer: tokenAnswer,
    errors: ['invalid_request'],
    handle: ({ body: { exchange_code: code }, origin, idempotencyKey }) => {
      if (!issueTokens)
        throw invalidToken('This service gives no tokens: it has no keys for them.', { reason: 'token_not_taken' });
      return exchangeCode({ pool, issueTokens }, { code, origin, idempotencyKey, path: '/api/v1/auth/exchange' });
    },
  });
}
