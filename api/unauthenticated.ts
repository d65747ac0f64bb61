import type { Request, Response } from 'express';
import { PurserError } from '../shared/errors.ts';
import type { Denial, NoteDenial } from './denial-log.ts';

/** Whose a refused credential is. */
export type Known = Pick<Denial, 'accountId' | 'actor'>;

/** A 401 names what is accepted instead (RFC 9110, 11.6.1). */
export class Unauthenticated extends PurserError {
  readonly challenge: string;
  /** For the audit log. */
  readonly reason: string;
  known: readonly Known[] = [];

  constructor(
    message: string,
    { reason, challenge = 'Bearer realm="purser"' }: { reason: string; challenge?: string },
  ) {
    super('authentication_failed', message);
    this.reason = reason;
    this.challenge = challenge;
  }

  knowing(known: readonly Known[]): this {
    this.known = known;
    return this;
  }
}

/** What was wrong with a token, as RFC 6750, 3, wants it said. */
export function invalidToken(
  message: string,
  { reason = 'token_not_valid' }: { reason?: string } = {},
): Unauthenticated {
  const description = message.replaceAll('"', "'");
  return new Unauthenticated(message, {
    reason,
    challenge: `Bearer realm="purser", error="invalid_token", error_description="${description}"`,
  });
}

/** Says in the answer what is accepted instead, and notes the refusal for each account that the credentials are known to be of. */
export async function tellUnauthenticated(
  { challenge, known, reason }: Unauthenticated,
  { noteDenial, request, response }: { noteDenial: NoteDenial; request: Request; response: Response },
): Promise<void> {
  response.setHeader('WWW-Authenticate', challenge);
  for (const { accountId, actor } of known)
    await noteDenial({ accountId, action: 'credential.denied', actor, reason }, { request, response });
}
