import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ClaimedKey,
  claimKey,
  findKey,
  type IdempotencyKeyRow,
  type KeyScope,
  type StoredAnswer,
  storeAnswer,
} from '../shared/db/idempotency-keys.ts';
import { isConnectionError, type Pool, type Queryable } from '../shared/db/pool.ts';
import { PurserError } from '../shared/errors.ts';
import type { Logger } from '../shared/log.ts';
import { renderError } from './render/error.ts';

/** How long after the longest wait for a decision whoever began is still taken to be at work. */
const leaseMarginMs = 5_000;
/** How long a key lives that does not live as long as what it made. */
const lifetimeMs = 24 * 60 * 60 * 1000;
/** Whole seconds after which a repeat finds more. */
const inProgressRetrySeconds = 1;
/** Tries to keep an answer while connections to the database break, and the pause between them. */
const storeTries = 3;
const storePauseMs = 200;

/** What a handler does so that a repeat of its request does nothing again. Without a key all of it does nothing. */
export interface Once {
  /**
   * Takes the request's key in the handler's database transaction, as its first statement.
   * @param resourceId what is made; null where the answer is kept in the same transaction and nobody needs it
   * @param isKept whether the key lives as long as that, and not only 24 h
   * @throws KeyInUse when another request has it: let it pass, so that the transaction is rolled back
   */
  claim(db: Queryable, claim: { resourceId: string | null; isKept?: boolean }): Promise<void>;
  /** Keeps the answer in the same transaction, where it follows from what was written; return just it from the handler. */
  answer(db: Queryable, body: unknown): Promise<void>;
}

/** For callers that have no key. */
export const unkeyed: Once = { claim: async () => {}, answer: async () => {} };

/** Ends a database transaction whose request another one has taken first; never seen by a client. */
class KeyInUse extends Error {
  override readonly name = 'KeyInUse';
}

/** A request that has a key. */
export interface KeyedRequest extends KeyScope {
  readonly bodyHash: Buffer;
  /** Goes into the body of a refusal. */
  readonly requestId: string;
  readonly log: Logger;
  /** The handler. */
  readonly handle: (once: Once) => Promise<unknown>;
  /** The answer from what was made, where the handler may die between making it and answering. Throws as the handler. */
  readonly rebuild: ((resourceId: string) => Promise<unknown>) | undefined;
  /** Whether the answer holds a secret: nothing of it is kept, and every repeat is a conflict. The handler has to claim. */
  readonly isAnswerSecret?: boolean;
}

/** What is sent. */
export interface Answer extends StoredAnswer {
  /** Whether it was made for an earlier request. */
  readonly isReplay: boolean;
}

export type AnswerOnce = (request: KeyedRequest) => Promise<Answer>;

/**
 * Answers requests with a key so that whatever they do is done once, whichever process they reach: the first is carried
 * out, and what it made is in one database transaction with its key; all others get its answer, or 409. Where the answer
 * holds a secret they get 409 always.
 * @param decisionWaitMs the longest that a handler waits
 */
export function createAnswerOnce({ pool, decisionWaitMs }: { pool: Pool; decisionWaitMs: number }): AnswerOnce {
  const leaseMs = decisionWaitMs + leaseMarginMs;
  return async function answerOnce(request) {
    const seen = await findKey(pool, request);
    if (seen) return answerSeen(pool, { request, seen });
    try {
      return await begin(pool, { request, leaseMs });
    } catch (error) {
      if (!(error instanceof KeyInUse)) throw error;
      const twin = await findKey(pool, request);
      // It was there a moment ago: it has expired, or was never committed after all.
      if (!twin) throw inProgress(request);
      return answerSeen(pool, { request, seen: twin });
    }
  };
}

/** Carries the request out. @throws KeyInUse when another one was first */
async function begin(pool: Pool, { request, leaseMs }: { request: KeyedRequest; leaseMs: number }): Promise<Answer> {
  const claim = createClaim({ request, leaseMs });
  let answer: StoredAnswer;
  try {
    answer = done(await request.handle(claim.once));
  } catch (error) {
    const made = claim.made();
    if (!isKeepable(error) || !made) throw error;
    // It is kept if something was stored: a claim that was rolled back is not there.
    const kept = await store(pool, { claim: made, answer: refused(request, error), request });
    if (!kept) throw error;
    return kept;
  }
  const inside = claim.answered();
  const made = claim.made();
  if (request.isAnswerSecret) {
    if (!made || inside) throw new Error(`${request.path} has to claim its key, and to keep no answer.`);
    return { ...answer, isReplay: false };
  }
  if (inside) return { ...inside, isReplay: false };
  if (made) return (await store(pool, { claim: made, answer, request })) ?? { ...answer, isReplay: false };
  const key = { ...scopeOf(request), bodyHash: request.bodyHash, resourceId: null, leaseMs, lifetimeMs, answer };
  if (!(await claimKey(pool, key))) throw new KeyInUse();
  return { ...answer, isReplay: false };
}

function createClaim({ request, leaseMs }: { request: KeyedRequest; leaseMs: number }) {
  let made: ClaimedKey | undefined;
  let answered: StoredAnswer | undefined;
  const once: Once = {
    async claim(db, { resourceId, isKept = false }) {
      const key = { ...scopeOf(request), bodyHash: request.bodyHash, resourceId };
      if (!(await claimKey(db, { ...key, leaseMs, lifetimeMs: isKept ? null : lifetimeMs }))) throw new KeyInUse();
      made = key;
    },
    async answer(db, body) {
      if (!made) throw new Error('The answer to a request was to be kept before its key was claimed.');
      answered = done(body);
      await storeAnswer(db, { claim: made, answer: answered });
    },
  };
  return { once, made: () => made, answered: () => answered };
}

/** What a key in use answers. @throws PurserError 409 for another body, and while the first request is at work */
async function answerSeen(
  pool: Pool,
  { request, seen }: { request: KeyedRequest; seen: IdempotencyKeyRow },
): Promise<Answer> {
  const { status, answer, resource_id: resourceId } = seen;
  if (request.isAnswerSecret) throw answerWasSecret(request.key);
  if (!seen.body_hash.equals(request.bodyHash)) throw conflict(request);
  if (status !== null && answer !== null) return { status, answer, isReplay: true };
  if (seen.is_leased) throw inProgress(request);
  if (!request.rebuild || resourceId === null)
    throw new Error(`Nothing tells what ${request.path} has answered, and nobody will.`);
  let rebuilt: StoredAnswer;
  try {
    rebuilt = done(await request.rebuild(resourceId));
  } catch (error) {
    if (!isKeepable(error)) throw error;
    rebuilt = refused(request, error);
  }
  const claim = { ...scopeOf(request), bodyHash: request.bodyHash, resourceId };
  return { ...((await store(pool, { claim, answer: rebuilt, request })) ?? rebuilt), isReplay: true };
}

/**
 * Keeps an answer; whoever was faster, as after a lease that was over, has said what it is.
 * What was done is done: where the database cannot keep the answer, it is given all the same.
 * @returns the answer that stands; undefined where the key is not claimed
 */
async function store(
  pool: Pool,
  { claim, answer, request }: { claim: ClaimedKey; answer: StoredAnswer; request: KeyedRequest },
): Promise<Answer | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const stands = await storeAnswer(pool, { claim, answer });
      return stands && { ...stands, isReplay: stands.answer !== answer.answer };
    } catch (error) {
      if (isConnectionError(error) && attempt < storeTries) {
        await sleep(storePauseMs);
        continue;
      }
      request.log.warn({ err: error, resource_id: claim.resourceId }, 'an answer could not be kept for repeats');
      return { ...answer, isReplay: false };
    }
  }
}

function scopeOf({ accountId, method, path, key }: KeyScope): KeyScope {
  return { accountId, method, path, key };
}

function done(body: unknown): StoredAnswer {
  return { status: 200, answer: JSON.stringify(body) };
}

/** A fault of ours or an outage says nothing about the request: a repeat shall try anew. */
function isKeepable(error: unknown): error is PurserError {
  return error instanceof PurserError && error.status < 500;
}

function refused({ requestId }: KeyedRequest, error: PurserError): StoredAnswer {
  return { status: error.status, answer: JSON.stringify(renderError(error, { requestId })) };
}

function conflict({ key }: KeyedRequest): PurserError {
  return new PurserError(
    'idempotency_key_conflict',
    `Idempotency-Key ${JSON.stringify(key)} was used here for another request: the body differs, or who decides. Send the same body, or another key.`,
  );
}

/**
 * What a repeat is told where the answer held a secret. The first request may be at work, or may have died: its answer
 * is nowhere.
 */
export function answerWasSecret(key: string): PurserError {
  return new PurserError(
    'idempotency_key_conflict',
    `Idempotency-Key ${JSON.stringify(key)} was used here before. That answer holds a secret, which is shown once and kept nowhere. Send another key for another one.`,
  );
}

function inProgress({ key }: KeyedRequest): PurserError {
  return new PurserError(
    'idempotency_key_in_progress',
    `The first request with Idempotency-Key ${JSON.stringify(key)} is still at work. Repeat this one for its answer.`,
    { retryAfterSeconds: inProgressRetrySeconds },
  );
}
