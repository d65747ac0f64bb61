import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { readTraceParent } from '../shared/domain/trace-parent.ts';
import { noteInLog, withLogFields } from '../shared/log-context.ts';
import type { SignerContext } from './context.ts';
import { isEngineBroken } from './engine/engine.ts';
import type { ServedRequest } from './metrics.ts';
import { createNonceRecord, type NonceRecord } from './nonces.ts';
import { type OperationPath, operations } from './operations.ts';
import { Refusal, refusals } from './refusal.ts';
import {
  ANSWER_HEADER,
  BODY_BYTES_MAX,
  REQUEST_AGE_MAX_MS,
  REQUEST_HEADER,
  type RequestClaims,
  sha256,
  signAnswer,
  verifyRequest,
} from './wire.ts';

const CONNECTIONS_MAX = 256;
/** From the first byte, or from the connection where none comes: whoever sends slower holds a place that others need. */
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 15_000;
/** How often those times are looked after; Node's own default would double them. */
const TIMEOUT_CHECK_MS = 1_000;
/** Longer than the coordinator keeps an idle connection, so that it never writes to one we are closing. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;

/**
 * The HTTP face of one signer. It answers coordinator and operator only: a request without a good signature changes nothing, and
 * one with a good signature but bad content ends the run it names.
 * @param p.onBroken called once the engine has trapped; the process must end and start again
 * @param p.onServed is told of each answer, for whoever measures
 */
export function createSignerServer(
  context: SignerContext,
  p: { onBroken: (error: unknown) => void; onServed?: (served: ServedRequest) => void },
): Server {
  const nonces = createNonceRecord();
  const server = createServer(
    {
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    },
    (req, res) => {
      const { traceId } = readTraceParent(req.headers.traceparent) ?? {};
      withLogFields(traceId === undefined ? {} : { trace_id: traceId }, () =>
        handle(context, { req, res, nonces, ...p }).catch((error) => {
          context.log.error({ err: error }, 'an answer could not be sent');
          res.destroy();
        }),
      );
    },
  );
  server.maxConnections = CONNECTIONS_MAX;
  return server;
}

interface Exchange {
  req: IncomingMessage;
  res: ServerResponse;
  nonces: NonceRecord;
  onBroken: (error: unknown) => void;
  onServed?: (served: ServedRequest) => void;
}

async function handle(context: SignerContext, exchange: Exchange): Promise<void> {
  const { req, res } = exchange;
  if (req.method === 'GET' && req.url === '/healthz') return sendHealth(context, res);
  const sinceMs = performance.now();
  let claims: RequestClaims | undefined;
  let status = 200;
  let outcome = 'ok';
  let answer: object;
  try {
    claims = await authenticate(context, exchange);
    noteInLog({ session: claims.session, path: claims.path });
    answer = await perform(context, { claims, req });
  } catch (error) {
    if (claims) context.sessions.end(claims.session);
    if (isEngineBroken(error)) exchange.onBroken(error);
    const refusal = toRefusal(context, error);
    status = refusals[refusal.code];
    outcome = refusal.code;
    answer = { code: refusal.code, message: refusal.message, culprit: refusal.culprit };
  }
  const seconds = (performance.now() - sinceMs) / 1000;
  exchange.onServed?.({ operation: nameOf(claims), outcome, seconds });
  const body = Buffer.from(JSON.stringify(answer));
  res.statusCode = status;
  res.setHeader('content-type', 'application/json');
  res.setHeader('server-timing', `serve;dur=${(performance.now() - sinceMs).toFixed(3)}`);
  // What was not read must not be taken for the next request.
  if (!req.complete) res.setHeader('connection', 'close');
  if (claims) {
    const { nonce } = claims;
    res.setHeader(
      ANSWER_HEADER,
      await signAnswer(context.identity.signingKey, { from: context.party, nonce, status, body }),
    );
  }
  res.end(body);
}

/** One of a closed list, whatever was asked for. */
function nameOf(claims: RequestClaims | undefined): string {
  if (!claims) return 'unauthenticated';
  return Object.hasOwn(operations, claims.path) ? claims.path : 'unknown';
}

/** @throws Refusal `unauthenticated`, `replayed`: the sender is nobody whom this signer knows, or not now */
async function authenticate(context: SignerContext, { req, nonces }: Exchange): Promise<RequestClaims> {
  const token = req.headers[REQUEST_HEADER];
  if (typeof token !== 'string') throw new Refusal('unauthenticated', `header ${REQUEST_HEADER} is missing`);
  const keys = { coordinator: context.coordinatorKey, operator: context.operatorKey };
  const claims = await verifyRequest(keys, token).catch((cause) => {
    throw new Refusal('unauthenticated', `header ${REQUEST_HEADER} is not signed by the coordinator or the operator`, {
      cause,
    });
  });
  if (claims.to !== context.party) {
    throw new Refusal('unauthenticated', `the request is for signer ${claims.to}, this is signer ${context.party}`);
  }
  if (req.method !== 'POST' || claims.path !== req.url) {
    throw new Refusal('unauthenticated', `the request is signed for POST ${claims.path}`);
  }
  const now = context.now();
  const ageMs = now.getTime() - claims.at_ms;
  if (Math.abs(ageMs) > REQUEST_AGE_MAX_MS) {
    throw new Refusal(
      'unauthenticated',
      `the request is ${ageMs} ms old; compare the clocks of coordinator and signer`,
    );
  }
  nonces.use(claims.nonce, now);
  return claims;
}

async function perform(context: SignerContext, p: { claims: RequestClaims; req: IncomingMessage }): Promise<object> {
  const { path, role } = p.claims;
  const operation = Object.hasOwn(operations, path) ? operations[path as OperationPath] : undefined;
  if (!operation) throw new Refusal('not_found', `there is no operation ${path}`);
  if (!operation.by.includes(role)) {
    throw new Refusal('forbidden', `${path} is for ${operation.by.join(' and ')} only, the ${role} asked`);
  }
  const bytes = await readBody(p.req);
  if (sha256(bytes) !== p.claims.body_sha256)
    throw new Refusal('bad_message', 'the body is not the one that was signed');
  return operation.run(context, { session: p.claims.session, role, body: parseJson(bytes) });
}

async function readBody(req: IncomingMessage): Promise<Buffer> {
  const tooLarge = () => new Refusal('oversize', `a body has at most ${BODY_BYTES_MAX} bytes`);
  if (Number(req.headers['content-length'] ?? 0) > BODY_BYTES_MAX) throw tooLarge();
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of req.iterator({ destroyOnReturn: false })) {
      length += chunk.length;
      if (length > BODY_BYTES_MAX) throw tooLarge();
      chunks.push(chunk);
    }
  } catch (cause) {
    throw cause instanceof Refusal ? cause : new Refusal('malformed', 'the body did not arrive whole', { cause });
  }
  return Buffer.concat(chunks, length);
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    throw new Refusal('malformed', 'the body is not JSON');
  }
}

/** Only a Refusal is told to the coordinator; anything else is logged here and answered as `internal`. */
function toRefusal(context: SignerContext, error: unknown): Refusal {
  if (error instanceof Refusal) {
    const { code, message, culprit } = error;
    const alert = code === 'share_damaged' || code === 'protocol_fault' || code === 'bad_message';
    context.log[alert ? 'error' : 'warn']({ code, culprit }, message);
    return error;
  }
  context.log.error({ err: error }, 'a request failed');
  return new Refusal('internal', `signer ${context.party} failed; its log says why`);
}

function sendHealth(context: SignerContext, res: ServerResponse): void {
  const health = { status: 'ok', party: context.party, engine: context.engine.build, keys: context.store.countKeys() };
  res.setHeader('content-type', 'application/json');
  res.end(JSON.stringify(health));
}
