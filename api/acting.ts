import type { Request, Response } from 'express';
import type { Acting } from '../shared/db/audit.ts';
import { withoutSecrets } from '../shared/domain/without-secrets.ts';
import { actorOf, type Caller } from './caller.ts';
import { clientAddressOf } from './client-address.ts';

/** A header of a client may be of any length; what is kept of it is not. */
const maxUserAgent = 512;

/** Who makes a request and from where, for the audit log. */
export function actingOf(request: Request, response: Response, caller: Caller): Acting {
  return { actor: actorOf(caller), ...originOf(request, response) };
}

export type Origin = Omit<Acting, 'actor'>;

/** Where a request comes from. */
export function originOf(request: Request, response: Response): Origin {
  const { requestId } = response.locals as { requestId: string };
  const userAgent = withoutSecrets(request.get('user-agent') ?? '').slice(0, maxUserAgent);
  return { ipAddress: clientAddressOf(request) || null, userAgent: userAgent || null, requestId };
}
