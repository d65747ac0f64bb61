import { type Request, type Response, Router } from 'express';
import { PurserError } from '../../shared/errors.ts';
import { AddressNotAllowed } from '../address-not-allowed.ts';
import { actorOf, type Caller } from '../caller.ts';
import type { Denial, NoteDenial } from '../denial-log.ts';
import type { Endpoint, Method } from '../endpoint.ts';
import type { AnswerOnce } from '../idempotency.ts';
import { tellUnauthenticated, Unauthenticated } from '../unauthenticated.ts';

/**
 * Mounts endpoints, answers 405 for a method that a known path does not have, and notes whom an endpoint has refused what
 * they may not.
 */
export function createResourceRouter({
  endpoints,
  answerOnce,
  noteDenial,
}: {
  endpoints: readonly Endpoint[];
  answerOnce: AnswerOnce;
  noteDenial: NoteDenial;
}): Router {
  const router = Router({ caseSensitive: true });
  for (const [path, group] of Map.groupBy(endpoints, (endpoint) => endpoint.path)) {
    const route = router.route(path.replaceAll(/\{(\w+)\}/g, ':$1'));
    for (const endpoint of group)
      route[endpoint.method](async (request: Request, response: Response) => {
        try {
          await endpoint.serve(request, response, { answerOnce });
        } catch (error) {
          if (error instanceof Unauthenticated) await tellUnauthenticated(error, { noteDenial, request, response });
          const denial = deniedTo(response.locals as { caller?: Caller }, { error, endpoint });
          if (denial) await noteDenial(denial, { request, response });
          throw error;
        }
      });
    const allowed = allowedMethods(group.map((endpoint) => endpoint.method));
    route.all((_request, response) => {
      response.setHeader('Allow', allowed);
      throw new PurserError('method_not_allowed', `This path has ${allowed} only.`);
    });
  }
  return router;
}

/** Who was refused what they may not, where that is known. */
function deniedTo(
  { caller }: { caller?: Caller },
  { error, endpoint }: { error: unknown; endpoint: Endpoint },
): Denial | undefined {
  const action = 'permission.denied';
  if (error instanceof AddressNotAllowed) return { ...error.known, action, reason: 'address_not_allowed' };
  if (!caller || !(error instanceof PurserError) || error.code !== 'insufficient_permissions') return undefined;
  return { accountId: caller.accountId, actor: actorOf(caller), action, reason: endpoint.operationId };
}

function allowedMethods(methods: readonly Method[]): string {
  // Express answers HEAD by GET.
  const all = methods.flatMap((method) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]));
  return all.join(', ');
}
