import { type Request, type Response, Router } from 'express';
import { PurserError } from '../../shared/errors.ts';
import { actorOf, type Caller } from '../caller.ts';
import type { NoteDenial } from '../denial-log.ts';
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
          if (error instanceof PurserError && error.code === 'insufficient_permissions') {
            const { caller } = response.locals as { caller?: Caller };
            if (!caller) throw error;
            const by = { accountId: caller.accountId, actor: actorOf(caller), reason: endpoint.operationId };
            await noteDenial({ ...by, action: 'permission.denied' }, { request, response });
          }
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

function allowedMethods(methods: readonly Method[]): string {
  // Express answers HEAD by GET.
  const all = methods.flatMap((method) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]));
  return all.join(', ');
}
