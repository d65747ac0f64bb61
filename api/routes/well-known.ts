import { Router } from 'express';
import type { AccessTokens } from '../tokens/access-tokens.ts';

/** A new key is published ten minutes before it signs, so that no copy lacks it. */
const maxAgeSeconds = 300;

/** `/.well-known/jwks.json`: by which others check access tokens (RFC 7517). Public halves only. */
export function createWellKnownRouter({ tokens }: { tokens: AccessTokens | undefined }): Router {
  const router = Router();
  if (!tokens) return router;
  router.get('/.well-known/jwks.json', (_request, response) => {
    response.setHeader('Cache-Control', `public, max-age=${maxAgeSeconds}`);
    response.json(tokens.publicJwks());
  });
  return router;
}
