import type { NextFunction, Request, Response } from 'express';
import { logFields, noteInLog } from '../../shared/log-context.ts';
import type { Tracing } from '../../shared/tracing/tracing.ts';
import type { Caller } from '../caller.ts';

/** Asked every few seconds by whoever watches the process. */
const untraced = ['/healthz', '/readyz'];

/** A trace for each request, named by its route, and its id in every line that is logged for it. */
export function createTraceRequests({ tracing }: { tracing?: Tracing | undefined }) {
  return function traceRequest(request: Request, response: Response, next: NextFunction): void {
    if (!tracing || untraced.includes(request.path)) {
      next();
      return;
    }
    const about = logFields();
    const span = tracing.startRequest({
      name: request.method,
      attributes: { 'http.request.method': request.method },
      claimed: request.get('traceparent'),
    });
    noteInLog({ trace_id: span.traceId });
    response.once('close', () => {
      const { caller } = response.locals as { caller?: Caller };
      const route = routeOf(request);
      span.end({
        name: route === undefined ? request.method : `${request.method} ${route}`,
        attributes: {
          ...about,
          account_id: caller?.accountId,
          'http.route': route,
          'http.response.status_code': response.statusCode,
        },
        failed: response.statusCode >= 500,
      });
    });
    span.run(next);
  };
}

/** The route's pattern, never the path: that may hold the token of a link. */
export function routeOf(request: Request): string | undefined {
  const path = (request.route as { path?: unknown } | undefined)?.path;
  if (typeof path !== 'string') return undefined;
  // After an error the router has forgotten where it was mounted.
  const mounted = request.originalUrl.startsWith('/api/v1/') && !path.startsWith('/api/v1') ? '/api/v1' : '';
  return mounted + path;
}
