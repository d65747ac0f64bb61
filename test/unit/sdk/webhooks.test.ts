import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { signTestWebhook, verifyWebhook, WebhookVerificationError } from '../../../sdk/webhooks.ts';

const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;
const secret = newSecret();
const event = { type: 'payment.completed', data: { id: 'tx_1', note: 'Zoë paid 1,5 € 💸\n' } } as const;

const refusal = (verify: () => unknown): string => {
  try {
    verify();
  } catch (error) {
    if (error instanceof WebhookVerificationError) return error.reason;
    throw error;
  }
  return 'none';
};

describe('verifyWebhook', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it('gives the event of a request that was signed, whatever its headers and body come in', () => {
    const { headers, body } = signTestWebhook({ secret, event });
    const expected = { ...JSON.parse(body), ...event };
    for (const given of [
      headers,
      new Headers(headers),
      Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value])),
      Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]])),
    ])
      for (const payload of [body, Buffer.from(body), new TextEncoder().encode(body)])
        expect(verifyWebhook({ payload, headers: given, secret })).toEqual(expected);
  });

  it('takes what the official library signs', () => {
    const body = JSON.stringify({ id: 'evt_1', ...event });
    const at = new Date();
    const headers = {
      'webhook-id': 'evt_1',
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': `v2,xyz v1 v1, ${new Webhook(secret).sign('evt_1', at, body)}`,
    };
    expect(verifyWebhook({ payload: body, headers, secret })).toMatchObject({ id: 'evt_1' });
  });

  it('takes either secret while one takes over from the other, on whichever side', () => {
    const other = newSecret();
    const both = signTestWebhook({ secrets: [other, secret], event });
    expect(both.headers['webhook-signature'].split(' ')).toHaveLength(2);
    for (const known of [secret, other])
      expect(verifyWebhook({ payload: both.body, headers: both.headers, secret: known }).type).toBe(event.type);
    const one = signTestWebhook({ secret, event });
    expect(verifyWebhook({ payload: one.body, headers: one.headers, secrets: [other, secret] }).type).toBe(event.type);
    expect(
      refusal(() => verifyWebhook({ payload: one.body, headers: one.headers, secrets: [other, newSecret()] })),
    ).toBe('no_match');
  });

  it('takes secrets in words: their characters are the key', () => {
    const words = 'whsec_correct horse battery staple';
    const { headers, body } = signTestWebhook({ secret: words, event });
    expect(verifyWebhook({ payload: body, headers, secret: words }).type).toBe(event.type);
    const raw = new Webhook('correct horse battery staple', { format: 'raw' });
    expect(raw.verify(body, headers)).toMatchObject(event);
  });

  it('refuses whatever is changed by a single character: body, id, timestamp, signature', () => {
    const { headers, body } = signTestWebhook({ secret, event });
    const parts = ['body', 'webhook-id', 'webhook-timestamp', 'webhook-signature'] as const;
    fc.assert(
      fc.property(fc.constantFrom(...parts), fc.nat(), (part, where) => {
        const text = part === 'body' ? body : headers[part];
        // The letters before the signature say of what version it is.
        const at = part === 'webhook-signature' ? 3 + (where % (text.length - 4)) : where % text.length;
        const other = text[at] === '1' ? '2' : '1';
        const changed = text.slice(0, at) + other + text.slice(at + 1);
        const sent = part === 'body' ? { headers, body: changed } : { headers: { ...headers, [part]: changed }, body };
        expect(['no_match', 'too_old', 'too_new']).toContain(
          refusal(() => verifyWebhook({ payload: sent.body, headers: sent.headers, secret })),
        );
      }),
    );
  });

  it.each([
    [300, 300, 'none'],
    [301, 300, 'too_old'],
    [-300, 300, 'none'],
    [-301, 300, 'too_new'],
    [10, 10, 'none'],
    [11, 10, 'too_old'],
    [-11, 10, 'too_new'],
  ])('of a request that is %i s old, where %i s are allowed, says: %s', (ageSeconds, toleranceSeconds, expected) => {
    vi.useFakeTimers({ now: new Date('2026-03-01T12:00:00Z'), toFake: ['Date'] });
    const timestamp = new Date(Date.now() - ageSeconds * 1000);
    const { headers, body } = signTestWebhook({ secret, event, timestamp });
    expect(refusal(() => verifyWebhook({ payload: body, headers, secret, toleranceSeconds }))).toBe(expected);
  });

  it('says which header is missing, and that a timestamp is none', () => {
    const { headers, body } = signTestWebhook({ secret, event });
    for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
      for (const value of [undefined, '', ['a', 'b']]) {
        const verify = () => verifyWebhook({ payload: body, headers: { ...headers, [name]: value }, secret });
        expect(refusal(verify)).toBe('missing_header');
        expect(verify).toThrow(`The header ${name} is missing.`);
      }
    }
    for (const value of ['now', '-1', '1e9', `${headers['webhook-timestamp']}x`, '999999999999'])
      expect(
        refusal(() => verifyWebhook({ payload: body, headers: { ...headers, 'webhook-timestamp': value }, secret })),
      ).toBe('invalid_timestamp');
  });

  it('says so where what was signed is no event', () => {
    for (const payload of ['', 'null', '[]', '"text"', '{"id":"evt_1"}', '{'])
      expect(
        refusal(() => {
          const { headers, body } = signTestWebhook({ secret, payload, id: 'evt_1' });
          return verifyWebhook({ payload: body, headers, secret });
        }),
      ).toBe('not_an_event');
  });

  it('tells whoever calls it wrongly, and never repeats the secret', () => {
    const { headers, body } = signTestWebhook({ secret, event });
    const wrong: [Record<string, unknown>, RegExp][] = [
      [{ payload: JSON.parse(body) }, /payload must be the raw body/],
      [{ secret: undefined }, /is its variable set/],
      [{ secret: 'not a secret of a webhook' }, /^secret must begin with whsec_/],
      [{ secrets: [] }, /at least one secret/],
      [{ toleranceSeconds: 0 }, /must be 1 to 300/],
      [{ toleranceSeconds: 301 }, /must be 1 to 300/],
      [{ toleranceSeconds: Number.NaN }, /must be 1 to 300/],
    ];
    for (const [more, message] of wrong) {
      // biome-ignore lint/suspicious/noExplicitAny: calls that the types refuse
      const call = () => verifyWebhook({ payload: body, headers, secret, ...more } as any);
      expect(call).toThrow(TypeError);
      expect(call).toThrow(message);
      expect(call).toThrow(expect.not.stringContaining('not a secret of a webhook'));
    }
  });
});

describe('signTestWebhook', () => {
  it('makes a request that the official library verifies, with an event that is whole', () => {
    const { headers, body } = signTestWebhook({ secret, event });
    expect(new Webhook(secret).verify(body, headers)).toEqual({
      id: expect.stringMatching(/^evt_[0-7][0-9a-hjkmnp-tv-z]{25}$/),
      ...event,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      api_version: '1.0.0',
      livemode: false,
    });
    expect(headers['webhook-id']).toBe(JSON.parse(body).id);
    expect(headers['content-type']).toBe('application/json');
  });

  it('signs what it is given: an id, an instant, a body of any text', () => {
    const timestamp = new Date(Date.now() - 60_000);
    const named = signTestWebhook({ secret, event: { ...event, id: 'evt_7' }, timestamp });
    expect(named.headers['webhook-id']).toBe('evt_7');
    expect(named.headers['webhook-timestamp']).toBe(String(Math.floor(timestamp.getTime() / 1000)));
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (payload) => {
        const { headers, body } = signTestWebhook({ secret, payload, id: 'evt_1' });
        expect(body).toBe(payload);
        if (payload !== '') expect(() => new Webhook(secret).verify(body, headers, { jsonParse: false })).not.toThrow();
      }),
    );
  });

  it('wants an event or a body, and not both', () => {
    expect(() => signTestWebhook({ secret })).toThrow(/either event or payload/);
    expect(() => signTestWebhook({ secret, event, payload: 'x' })).toThrow(/either event or payload/);
  });
});
