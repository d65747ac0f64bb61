import { type Request, type Response, Router } from 'express';
import { PurserError } from '../../shared/errors.ts';
import type { Endpoint, Method } from '../endpoint.ts';
import type { AnswerOnce } from '../idempotency.ts';

/** Mounts endpoints, and answers 405 for a method that a known path does not have. */
export function createResourceRouter({
  endpoints,
  answerOnce,
}: {
  endpoints: readonly Endpoint[];
  answerOnce: AnswerOnce;
}): Router {
  const router = Router({ caseSensitive: true });
  for (const [path, group] of Map.groupBy(endpoints, (endpoint) => endpoint.path)) {
    const route = router.route(path.replaceAll(/\{(\w+)\}/g, ':$1'));
    for (const endpoint of group)
      route[endpoint.method]((request: Request, response: Response) =>
        endpoint.serve(request, response, { answerOnce }),
      );
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
