import { Agent, request } from 'node:http';
import type { CoordinatorIdentity, PeerIdentity } from './identity.ts';
import type { OperationPath } from './operations.ts';
import type { Party } from './parties.ts';
import type { RefusalCode } from './refusal.ts';
import { ANSWER_HEADER, BODY_BYTES_MAX, REQUEST_HEADER, type Role, signRequest, verifyAnswer } from './wire.ts';

const SOCKETS_MAX = 128;
/** Shorter than the signer's own limit, so that no request is written to a connection that is being closed. */
const IDLE_SOCKET_MS = 60_000;

/** A signer answered, under its own name, that it will not. */
export class RefusedBySigner extends Error {
  override readonly name = 'RefusedBySigner';
  readonly party: Party;
  readonly code: RefusalCode;
  readonly culprit: number | null;
  constructor(p: { party: Party; code: RefusalCode; message: string; culprit: number | null }) {
    super(p.message);
    this.party = p.party;
    this.code = p.code;
    this.culprit = p.culprit;
  }
}

/** No answer that counts: unreachable, too slow, or not signed by that signer. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
  readonly party: Party;
  constructor(p: { party: Party; message: string; cause?: unknown }) {
    super(p.message, { cause: p.cause });
    this.party = p.party;
  }
}

/** One signer, as the coordinator reaches it. */
export interface SignerPeer {
  party: Party;
  url: string;
  identity: PeerIdentity;
}

interface HttpAnswer {
  status: number;
  token: string | undefined;
  body: Buffer;
  /** Undefined where the signer does not say. */
  servedMs: number | undefined;
}

/**
 * Stands around a call, for whoever keeps traces: `traceparent` goes along in a header (W3C Trace Context), `served` is told
 * how long the signer worked by its own word. Neither is signed, and nothing is decided by them.
 */
export type TraceCall = <T>(
  p: { party: Party; path: OperationPath },
  work: (call?: { traceparent: string; served(durationMs: number): void }) => Promise<T>,
) => Promise<T>;

/** Kept-alive connections to the signers. */
export interface SignerTransport {
  /**
   * Sends one signed request, and returns the body of an answer that the signer signed.
   * @throws RefusedBySigner, NoAnswer
   */
  call<T>(
    peer: SignerPeer,
    p: { path: OperationPath; session: string; body: object; timeoutMs: number; signal?: AbortSignal | undefined },
  ): Promise<T>;
  /** Unsigned health of one signer. @throws NoAnswer */
  health(peer: SignerPeer, p: { timeoutMs: number }): Promise<void>;
  close(): void;
}

/** @param p.role as whom the requests are signed; default coordinator */
export function createSignerTransport(p: {
  identity: CoordinatorIdentity;
  role?: Role;
  now: () => Date;
  trace?: TraceCall | undefined;
}): SignerTransport {
  const traced: TraceCall = p.trace ?? ((_call, work) => work());
  const agent = new Agent({ keepAlive: true, maxSockets: SOCKETS_MAX, timeout: IDLE_SOCKET_MS });

  async function exchange(peer: SignerPeer, http: HttpRequest): Promise<HttpAnswer> {
    try {
      return await send(agent, new URL(http.path, peer.url), http);
    } catch (cause) {
      const why = http.signal.reason?.name === 'TimeoutError' ? 'no answer in time' : describe(cause);
      throw new NoAnswer({ party: peer.party, message: `signer ${peer.party}: ${why}`, cause });
    }
  }

  return {
    async call<T>(
      peer: SignerPeer,
      { path, session, body, timeoutMs, signal }: Parameters<SignerTransport['call']>[1],
    ) {
      const { party } = peer;
      const bytes = Buffer.from(JSON.stringify(body));
      const { nonce, token } = await signRequest(p.identity.signingKey, {
        role: p.role ?? 'coordinator',
        to: party,
        path,
        session,
        body: bytes,
        now: p.now(),
      });
      const answer = await traced({ party, path }, async (call) => {
        const given = await exchange(peer, {
          method: 'POST',
          ...{ path, token, body: bytes },
          traceparent: call?.traceparent,
          signal: within(timeoutMs, signal),
        });
        if (given.servedMs !== undefined) call?.served(given.servedMs);
        return given;
      });
      await verifyAnswer(peer.identity.verificationKey, {
        token: answer.token ?? '',
        from: party,
        nonce,
        status: answer.status,
        body: answer.body,
      }).catch((cause) => {
        const said = answer.token ? describe(cause) : unsignedMessage(answer);
        throw new NoAnswer({
          party,
          message: `signer ${party}: answer ${answer.status} is not signed by it: ${said}`,
          cause,
        });
      });
      const parsed = JSON.parse(answer.body.toString('utf8'));
      if (answer.status === 200) return parsed as T;
      throw new RefusedBySigner({
        party,
        ...(parsed as { code: RefusalCode; message: string; culprit: number | null }),
      });
    },
    async health(peer, { timeoutMs }) {
      const answer = await exchange(peer, { method: 'GET', path: '/healthz', signal: within(timeoutMs) });
      const healthy = answer.status === 200 && JSON.parse(answer.body.toString('utf8')).party === peer.party;
      if (!healthy)
        throw new NoAnswer({ party: peer.party, message: `${peer.url} is not a healthy signer ${peer.party}` });
    },
    close: () => agent.destroy(),
  };
}

interface HttpRequest {
  method: 'GET' | 'POST';
  path: string;
  token?: string;
  body?: Buffer;
  traceparent?: string | undefined;
  signal: AbortSignal;
}

function send(agent: Agent, url: URL, p: HttpRequest): Promise<HttpAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<HttpAnswer>();
  const headers: Record<string, string | number> = p.body
    ? { 'content-type': 'application/json', 'content-length': p.body.length, [REQUEST_HEADER]: p.token ?? '' }
    : {};
  if (p.traceparent !== undefined) headers.traceparent = p.traceparent;
  const req = request(url, { method: p.method, agent, headers, signal: p.signal }, (res) => {
    const chunks: Buffer[] = [];
    let length = 0;
    res.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > BODY_BYTES_MAX) req.destroy(new Error(`the answer has more than ${BODY_BYTES_MAX} bytes`));
      else chunks.push(chunk);
    });
    res.on('error', reject);
    res.on('end', () => {
      const token = res.headers[ANSWER_HEADER];
      resolve({
        status: res.statusCode ?? 0,
        token: typeof token === 'string' ? token : undefined,
        body: Buffer.concat(chunks, length),
        servedMs: readServedMs(res.headers['server-timing']),
      });
    });
  });
  req.setNoDelay(true);
  req.on('error', reject);
  req.end(p.body);
  return promise;
}

/** @see https://www.w3.org/TR/server-timing/ */
function readServedMs(header: unknown): number | undefined {
  const [, duration] = /^serve;dur=(\d{1,9}(?:\.\d{1,3})?)$/.exec(String(header)) ?? [];
  return duration === undefined ? undefined : Number(duration);
}

function within(timeoutMs: number, signal?: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(timeoutMs);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}

function describe(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  return cause.message || ('code' in cause ? String(cause.code) : cause.name);
}

/** What an unsigned answer says is for the log only; nothing is decided by it. */
function unsignedMessage(answer: HttpAnswer): string {
  try {
    return String(JSON.parse(answer.body.toString('utf8')).message).slice(0, 200);
  } catch {
    return 'no signature';
  }
}
