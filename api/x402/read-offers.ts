import { decodePaymentRequiredHeader } from '@x402/core/http';
import type { GuardedAnswer } from '../../shared/http-guard.ts';
import { OutgoingFailure } from '../../shared/outgoing-failure.ts';
import { toCaip2 } from './x402-networks.ts';

/** What a target asks for, as it wrote it. */
export interface PaymentRequired {
  readonly version: 1 | 2;
  /** `ResourceInfo` of version 2, unchanged; null where there is none. */
  readonly resource: unknown;
  /** Of version 2, unchanged; null where there are none. */
  readonly extensions: unknown;
  readonly offers: readonly Offer[];
}

/** One way to pay. Members that are missing or of another type are empty strings, NaN or an empty object. */
export interface Offer {
  /** The element of `accepts`, unchanged: it is echoed to the target. */
  readonly raw: Readonly<Record<string, unknown>>;
  readonly scheme: string;
  /** CAIP-2, or as written where that is not known. */
  readonly network: string;
  /** In minor units, as written. */
  readonly amount: string;
  readonly asset: string;
  readonly payTo: string;
  readonly maxTimeoutSeconds: number;
  readonly extra: Readonly<Record<string, unknown>>;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** Targets offer one way for each chain and asset that they take. */
const maxOffers = 100;
const maxDepth = 32;

/**
 * Reads what a target asks for with status 402: header PAYMENT-REQUIRED (x402 version 2), else the body (version 1).
 * An offer that cannot be used is read all the same: the others may be good.
 * @throws OutgoingFailure `invalid_response` when there is nothing that could be read
 */
export function readOffers({ headers, body }: Pick<GuardedAnswer, 'headers' | 'body'>): PaymentRequired {
  const header = headers['payment-required'];
  const document = header === undefined ? readBody(body) : readHeader(header);
  const version = header === undefined ? 1 : 2;
  const { x402Version, accepts } = document;
  if (x402Version !== version)
    throw unreadable(`x402Version is not ${version}, as it has to be in ${version === 2 ? 'the header' : 'a body'}`);
  if (!Array.isArray(accepts)) throw unreadable('accepts is not a list of offers');
  if (accepts.length > maxOffers)
    throw unreadable(`accepts has ${accepts.length} offers; ${maxOffers} are read at most`);
  return {
    version,
    resource: (version === 2 && document.resource) || null,
    extensions: (version === 2 && document.extensions) || null,
    offers: accepts.map((raw) => readOffer(raw, { version })),
  };
}

function readHeader(header: string | string[]): JsonObject {
  if (typeof header !== 'string') throw unreadable('the header PAYMENT-REQUIRED comes more than once');
  try {
    return requireObject(decodePaymentRequiredHeader(header));
  } catch (error) {
    throw unreadable('the header PAYMENT-REQUIRED is not JSON in base64', { cause: error });
  }
}

function readBody(body: Buffer): JsonObject {
  try {
    return requireObject(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)));
  } catch (error) {
    throw unreadable('there is no header PAYMENT-REQUIRED, and the body is not a JSON object', { cause: error });
  }
}

function readOffer(raw: unknown, { version }: { version: 1 | 2 }): Offer {
  const offer = objectOr<JsonObject>(raw, {});
  const maxTimeout = offer.maxTimeoutSeconds;
  return {
    raw: offer,
    scheme: textOr(offer.scheme),
    network: toCaip2(textOr(offer.network)),
    amount: textOr(version === 1 ? offer.maxAmountRequired : offer.amount),
    asset: textOr(offer.asset),
    payTo: textOr(offer.payTo),
    maxTimeoutSeconds: typeof maxTimeout === 'number' ? maxTimeout : Number.NaN,
    extra: objectOr<JsonObject>(offer.extra, {}),
  };
}

function requireObject(value: unknown): JsonObject {
  const object = objectOr(value, undefined);
  if (object === undefined) throw new TypeError('not an object');
  if (isDeeperThan(maxDepth, object)) throw new TypeError('nested too deeply');
  return object;
}

/** Level by level: what is nested some thousand times cannot be walked through by calls, nor written again. */
function isDeeperThan(limit: number, value: object): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > limit) return true;
    level = level.flatMap((each) => (typeof each === 'object' && each !== null ? Object.values(each) : []));
  }
  return false;
}

const textOr = (value: unknown): string => (typeof value === 'string' ? value : '');

function objectOr<T>(value: unknown, otherwise: T): JsonObject | T {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : otherwise;
}

function unreadable(what: string, { cause }: { cause?: unknown } = {}): OutgoingFailure {
  return new OutgoingFailure('invalid_response', `it asks for a payment in a way that cannot be read: ${what}`, {
    cause,
  });
}
