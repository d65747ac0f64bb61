import type { NextFunction, Request, Response } from 'express';
import { Counter, Histogram, type Registry } from 'prom-client';
import { routeOf } from './trace-requests.ts';

/** A payment waits two seconds for its decision; seconds. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** What anybody may write there is no label. */
const methods: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** Why somebody is told to wait: by a limit of the plan, or for credentials that were refused too often. */
export type RequestLimit = 'minute' | 'day' | 'concurrent' | 'refused_credentials';
const limits: readonly RequestLimit[] = ['minute', 'day', 'concurrent', 'refused_credentials'];

/** What is measured of requests. */
export interface RequestMeasures {
  readonly measureRequest: (request: Request, response: Response, next: NextFunction) => void;
  /** Somebody was told to wait. */
  noteLimited(limit: RequestLimit): void;
}

/** Registers requests by the pattern of their route, never by their path: that may hold ids and the token of a link. */
export function createRequestMeasures(registry: Registry): RequestMeasures {
  const registers = [registry];
  const requests = new Counter({
    name: 'purser_http_requests_total',
    help: 'Requests to the api, by method, pattern of the route (none: nothing is there), and status.',
    labelNames: ['method', 'route', 'status'],
    registers,
  });
  const durations = new Histogram({
    name: 'purser_http_request_duration_seconds',
    help: 'How long requests to the api took, until their answer was on its way or their client had left.',
    labelNames: ['method', 'route'],
    buckets: durationBuckets,
    registers,
  });
  const limited = new Counter({
    name: 'purser_http_requests_limited_total',
    help: 'Requests that were answered 429, by the limit that was reached.',
    labelNames: ['limit'],
    registers,
  });
  for (const limit of limits) limited.inc({ limit }, 0);

  return {
    noteLimited: (limit) => limited.inc({ limit }),
    measureRequest(request, response, next) {
      const startedMs = performance.now();
      response.once('close', () => {
        const method = methods.includes(request.method) ? request.method : 'other';
        const route = routeOf(request) ?? 'none';
        requests.inc({ method, route, status: String(response.statusCode) });
        durations.observe({ method, route }, (performance.now() - startedMs) / 1000);
      });
      next();
    },
  };
}
