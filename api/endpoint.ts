import type { Request, Response } from 'express';
import { z } from 'zod';
import type { Acting } from '../shared/db/audit.ts';
import { type ErrorCode, PurserError } from '../shared/errors.ts';
import type { Logger } from '../shared/log.ts';
import { type Access, access, type OperationId, requireAccess } from './access.ts';
import { actingOf, type Origin, originOf } from './acting.ts';
import type { Caller } from './caller.ts';
import { type AnswerOnce, type Once, unkeyed } from './idempotency.ts';
import { hardenHash, hashBody } from './idempotency-hash.ts';
import { readIdempotencyKey } from './idempotency-key.ts';
import { Lines, sendLines } from './lines.ts';
import { isOwnBusiness, limitToOwnAgent } from './own-agent.ts';
import { readJson } from './read-json.ts';
import { readQuery } from './read-query.ts';
import { validate } from './validate.ts';

export type Method = 'get' | 'post' | 'put' | 'delete';

/** What a handler gets; everything in it has been validated. */
interface Call<Found, Query, Body> {
  readonly caller: Caller;
  /** The same, and from where: for the audit log. */
  readonly acting: Acting;
  /** What the path names. */
  readonly found: Found;
  readonly query: Query;
  readonly body: Body;
  readonly log: Logger;
  /** Of a POST: what its handler does so that a repeat with the same Idempotency-Key does nothing again. */
  readonly once: Once;
}

/** Who asks, and the identifiers of the path. */
interface PathNames {
  readonly caller: Caller;
  readonly id: string;
  /** The second one, of a path that has two. */
  readonly innerId: string;
}

/** The reference of an endpoint. */
interface Reference<Body extends z.ZodType> {
  readonly method: Method;
  /** Below `/api/v1`, with `{id}` for the identifier, and another name for that of something inside. */
  readonly path: string;
  /** Names it in the table of who may what (access.ts). */
  readonly operationId: OperationId;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  readonly answer: z.ZodType;
  /** Codes beyond those that every endpoint may answer with. */
  readonly errors: readonly ErrorCode[];
  readonly body?: Body;
  /** Whether the answer holds a secret: it is given once, and a repeat with the same Idempotency-Key is 409. */
  readonly isAnswerSecret?: boolean;
}

/** An endpoint in full: its reference and its work, so that neither can be without the other. */
export interface EndpointSpec<Found, Query extends z.ZodType, Body extends z.ZodType> extends Reference<Body> {
  /** Set where the answer is many lines, each of which is an `answer`: `handle` gives `Lines`. */
  readonly inLines?: boolean;
  readonly query?: Query;
  /** Whether no body at all is the same as an empty object. */
  readonly bodyOptional?: boolean;
  /** The body's schema where it depends on what the path names; `body` is then its reference. */
  readonly bodyFor?: (found: Found) => Body;
  /** Whether the body holds a secret that must not be guessable from what is kept of a request with an Idempotency-Key. */
  readonly isBodySecret?: boolean;
  /**
   * Looks up what the path names; undefined is answered with 404 before the input is looked at.
   * @throws PurserError 403 where it is not the caller's business
   */
  readonly find?: (call: PathNames) => Promise<Found | undefined>;
  /** Whose business that is, where the table lets keys of an agent in; by default its `agent_id`. */
  readonly agentOf?: (found: Found) => string;
  readonly handle: (call: Call<Found, z.output<Query>, z.output<Body>>) => Promise<unknown>;
  /**
   * The answer from what `handle` has made, for a repeat whose first request died before it answered. Needed unless
   * `handle` keeps its answer in the transaction of its claim. Throws as `handle`.
   */
  readonly rebuild?: (made: { caller: Caller; resourceId: string }) => Promise<unknown>;
}

/** An endpoint as the router and the reference see it. */
export interface Endpoint
  extends Pick<
    EndpointSpec<unknown, z.ZodType, z.ZodType>,
    | 'method'
    | 'path'
    | 'operationId'
    | 'tag'
    | 'summary'
    | 'description'
    | 'answer'
    | 'inLines'
    | 'errors'
    | 'bodyOptional'
    | 'isAnswerSecret'
  > {
  readonly access: Access;
  readonly query: z.ZodType;
  readonly body: z.ZodType | undefined;
  readonly serve: (request: Request, response: Response, means: { answerOnce: AnswerOnce }) => Promise<void>;
}

/** Tells an answer that was made for an earlier request. */
const replayedHeader = 'Idempotent-Replayed';

const noQuery = z.strictObject({});

/**
 * Order of refusals: whoever may not ask (403), what the path names (404), then the query, the body and the
 * Idempotency-Key (400), then what that key says (409). Credentials were checked before. A key of an agent sees what is
 * another agent's as another account would.
 */
export function defineEndpoint<
  Found = undefined,
  Query extends z.ZodType = typeof noQuery,
  Body extends z.ZodType = z.ZodUndefined,
>(spec: EndpointSpec<Found, Query, Body>): Endpoint {
  const { find, agentOf = agentIdOf, handle, rebuild, bodyFor, ...rest } = spec;
  const query = spec.query ?? noQuery;
  const allowed: Access = access[spec.operationId];
  const isPersonal = allowed.by === 'caller' && allowed.scope === null;
  return {
    ...rest,
    access: allowed,
    query,
    body: spec.body,
    async serve(request, response, { answerOnce }) {
      const { caller, log, requestId } = response.locals as { caller: Caller; log: Logger; requestId: string };
      requireAccess(allowed, caller);
      const [id = '', innerId = ''] = pathParameters(spec.path).map((name) => String(request.params[name]));
      const found = find ? await findOrRefuse({ find, agentOf }, { caller, id, innerId }) : undefined;
      const asked = validate(query, readQuery(request)) as z.output<Query>;
      const schema = bodyFor?.(found as Found) ?? spec.body;
      const sent = schema && (await readJson(request, response, { isOptional: spec.bodyOptional ?? false }));
      const body = (schema ? validate(schema, sent) : undefined) as z.output<Body>;
      const filters = query instanceof z.ZodObject && 'agent_id' in query.shape;
      const parameters = limitToOwnAgent({ caller, query: asked, filters, body });
      const acting = actingOf(request, response, caller);
      const carryOut = (once: Once) =>
        handle({ caller, acting, found: found as Found, query: parameters, body, log, once });
      const key = spec.method === 'post' ? readIdempotencyKey(request) : undefined;
      if (key === undefined) {
        const answer = await carryOut(unkeyed);
        if (answer instanceof Lines) await sendLines(response, answer);
        else response.json(answer);
        return;
      }
      const plainHash = hashBody(sent, { personId: isPersonal ? caller.user?.id : undefined });
      const path = request.baseUrl + pathOf(spec.path, [id, innerId]);
      const salt = [caller.accountId, path, key].join('\n');
      const { status, answer, isReplay } = await answerOnce({
        accountId: caller.accountId,
        method: 'POST',
        path,
        key,
        bodyHash: spec.isBodySecret ? await hardenHash(plainHash, { salt }) : plainHash,
        requestId,
        log,
        handle: carryOut,
        rebuild: rebuild && ((resourceId) => rebuild({ caller, resourceId })),
        isAnswerSecret: spec.isAnswerSecret ?? false,
      });
      if (isReplay) response.setHeader(replayedHeader, 'true');
      response.status(status).type('application/json').send(answer);
    },
  };
}

/** The path as requested, whatever stood around it. */
function pathOf(path: string, ids: readonly string[]): string {
  let next = 0;
  return path.replaceAll(/\{\w+\}/g, () => ids[next++]!);
}

/** Names of the identifiers in a path, in their order. */
export function pathParameters(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
}

/** Of most things. */
function agentIdOf(found: unknown): string | undefined {
  return (found as { agent_id?: string }).agent_id;
}

async function findOrRefuse<Found>(
  {
    find,
    agentOf,
  }: {
    find: NonNullable<EndpointSpec<Found, z.ZodType, z.ZodType>['find']>;
    agentOf: (found: Found) => string | undefined;
  },
  named: PathNames,
): Promise<Found> {
  const found = await find(named);
  const name = JSON.stringify(named.innerId || named.id);
  if (found === undefined || !isOwnBusiness({ caller: named.caller, agentId: agentOf(found) }))
    throw new PurserError('resource_not_found', `There is no ${name} in this account.`);
  return found;
}

/** An endpoint for whoever asks: what is sent proves what it must. */
export function defineOpenEndpoint<Body extends z.ZodType>(
  spec: Reference<Body> & {
    readonly body: Body;
    readonly handle: (call: {
      readonly body: z.output<Body>;
      readonly origin: Origin;
      readonly idempotencyKey: string | undefined;
      readonly log: Logger;
    }) => Promise<unknown>;
  },
): Endpoint {
  const { handle, ...rest } = spec;
  return {
    ...rest,
    access: access[spec.operationId],
    query: noQuery,
    async serve(request, response) {
      validate(noQuery, readQuery(request));
      const body = validate(spec.body, await readJson(request, response, { isOptional: false })) as z.output<Body>;
      const idempotencyKey = readIdempotencyKey(request);
      const { log } = response.locals as { log: Logger };
      response.json(await handle({ body, origin: originOf(request, response), idempotencyKey, log }));
    },
  };
}
