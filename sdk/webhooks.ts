import { Webhook } from 'standardwebhooks';
import { typeid } from 'typeid-js';
import type { EventType } from '../shared/domain/events.ts';
import { readWebhookSecret } from '../shared/domain/webhook-secret.ts';

/** The event that a webhook is sent; `GET /api/v1/events/{id}` shows the same. */
export interface WebhookEvent {
  /** The same for every delivery of the event: what was seen before need not be done again. */
  readonly id: string;
  /** Kinds may be added; treat one that you do not know as one that you do not need. */
  readonly type: EventType | (string & {});
  /** ISO 8601, UTC, milliseconds. */
  readonly created_at: string;
  readonly api_version: string;
  readonly livemode: boolean;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Why a request is not to be trusted. */
export type WebhookRefusal =
  | 'missing_header'
  | 'invalid_timestamp'
  | 'too_old'
  | 'too_new'
  | 'no_match'
  | 'not_an_event';

/** A request that is not what it pretends to be. Answer it with 400 and do nothing. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError';
  readonly reason: WebhookRefusal;
  constructor(reason: WebhookRefusal, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** The secret as it was registered, `whsec_…`; two of them while one takes over from the other. */
export type WebhookSecrets = { readonly secret: string } | { readonly secrets: readonly string[] };

/** Headers as `fetch`, Node, Express and most others have them. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const;
/** What Standard Webhooks allows clocks to differ by, and deliveries to take. */
const widestToleranceSeconds = 300;

/**
 * Checks that a request was sent by your Purser, just now and unchanged (Standard Webhooks 1.0), and reads its event.
 * @param payload the body exactly as it came, before anything has parsed it
 * @param toleranceSeconds how far its timestamp may be from this machine's clock; 1 to 300, default 300
 * @throws WebhookVerificationError for a request that is not to be trusted
 * @throws TypeError for a call that cannot be meant: no secret, one that is none, a payload that was parsed
 */
export function verifyWebhook({
  payload,
  headers,
  toleranceSeconds = widestToleranceSeconds,
  ...given
}: {
  payload: string | Uint8Array;
  headers: WebhookHeaders;
  toleranceSeconds?: number;
} & WebhookSecrets): WebhookEvent {
  const body = textOf(payload);
  const verifiers = verifiersOf(given);
  if (!(toleranceSeconds >= 1 && toleranceSeconds <= widestToleranceSeconds))
    throw new TypeError(`toleranceSeconds must be 1 to ${widestToleranceSeconds}.`);
  const read = readHeaders(headers);
  requireFresh(read['webhook-timestamp'], { toleranceSeconds });
  if (!verifiers.some((verifier) => matches(verifier, body, read)))
    throw new WebhookVerificationError(
      'no_match',
      'No signature matches. The secret is another one, or the body is not what was sent: verify the raw body, not one that was parsed and written again.',
    );
  return readEvent(body);
}

/**
 * Makes a request as Purser makes it, to try a receiver out without a Purser: send `body` with `headers`.
 * @param event what happened; whatever is left out gets a value
 * @param payload a body to sign in place of an event, for instance a broken one
 * @param id of the header `webhook-id`; by default the event's
 * @param timestamp by default now
 */
export function signTestWebhook({
  event,
  payload,
  id,
  timestamp = new Date(),
  ...given
}: {
  event?: Partial<WebhookEvent> & Pick<WebhookEvent, 'type'>;
  payload?: string;
  id?: string;
  timestamp?: Date;
} & WebhookSecrets): { headers: Record<(typeof names)[number] | 'content-type', string>; body: string } {
  if ((event === undefined) === (payload === undefined)) throw new TypeError('Give either event or payload.');
  const complete = {
    id: event?.id ?? id ?? typeid('evt').toString(),
    type: event?.type,
    created_at: event?.created_at ?? timestamp.toISOString(),
    api_version: event?.api_version ?? '1.0.0',
    livemode: event?.livemode ?? false,
    data: event?.data ?? {},
  };
  const body = payload ?? JSON.stringify(complete);
  const messageId = id ?? complete.id;
  return {
    headers: {
      'content-type': 'application/json',
      'webhook-id': messageId,
      'webhook-timestamp': String(Math.floor(timestamp.getTime() / 1000)),
      'webhook-signature': verifiersOf(given)
        .map((signer) => signer.sign(messageId, timestamp, body))
        .join(' '),
    },
    body,
  };
}

function textOf(payload: unknown): string {
  if (typeof payload === 'string') return payload;
  if (payload instanceof Uint8Array) return Buffer.from(payload).toString();
  throw new TypeError(
    'payload must be the raw body, a string or bytes. With Express, take it by express.raw({ type: "application/json" }).',
  );
}

/** The library reads base64 only; what the key of a secret is, is said in one place. */
function verifiersOf(given: WebhookSecrets): Webhook[] {
  const secrets = 'secrets' in given ? given.secrets : [given.secret];
  if (secrets.length === 0) throw new TypeError('Give at least one secret.');
  return secrets.map((secret) => {
    if (typeof secret !== 'string') throw new TypeError('secret must be a string: is its variable set?');
    const read = readWebhookSecret(secret);
    if ('fault' in read) throw new TypeError(`secret ${read.fault}`);
    return new Webhook(read.key, { format: 'raw' });
  });
}

function readHeaders(headers: WebhookHeaders): Record<(typeof names)[number], string> {
  const entries: Iterable<[string, unknown]> = headers instanceof Headers ? headers : Object.entries(headers);
  const given = new Map([...entries].map(([name, value]) => [name.toLowerCase(), value]));
  const found = names.map((name) => {
    const value = given.get(name);
    const [only] = Array.isArray(value) && value.length === 1 ? value : [value];
    if (typeof only !== 'string' || only === '')
      throw new WebhookVerificationError('missing_header', `The header ${name} is missing.`);
    return [name, only] as const;
  });
  return Object.fromEntries(found) as Record<(typeof names)[number], string>;
}

function requireFresh(timestamp: string, { toleranceSeconds }: { toleranceSeconds: number }): void {
  if (!/^\d{1,11}$/.test(timestamp))
    throw new WebhookVerificationError('invalid_timestamp', 'webhook-timestamp must be seconds since 1970.');
  const ageSeconds = Math.floor(Date.now() / 1000) - Number(timestamp);
  if (Math.abs(ageSeconds) <= toleranceSeconds) return;
  const [reason, relation] = ageSeconds > 0 ? (['too_old', 'ago'] as const) : (['too_new', 'ahead'] as const);
  throw new WebhookVerificationError(
    reason,
    `It was signed ${Math.abs(ageSeconds)} s ${relation}; ${toleranceSeconds} s are allowed. It is a repeat, or a clock is wrong.`,
  );
}

function matches(verifier: Webhook, body: string, headers: Record<string, string>): boolean {
  try {
    verifier.verify(body, headers, { jsonParse: false });
    return true;
  } catch {
    return false;
  }
}

function readEvent(body: string): WebhookEvent {
  let event: unknown;
  try {
    event = JSON.parse(body);
  } catch (cause) {
    throw new WebhookVerificationError('not_an_event', 'It is signed, but its body is not JSON.', { cause });
  }
  const { id, type } = (event ?? {}) as Partial<WebhookEvent>;
  if (typeof id === 'string' && typeof type === 'string') return event as WebhookEvent;
  throw new WebhookVerificationError('not_an_event', 'It is signed, but its body is no event with an id and a type.');
}
