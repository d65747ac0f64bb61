import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeApiKey } from '../../shared/api-key.ts';
import { withoutSecrets } from '../../shared/domain/without-secrets.ts';
import { createLogger } from '../../shared/log.ts';

const key = makeApiKey({ environment: 'production' }).key;
const token = randomBytes(32).toString('base64url');
const refreshToken = `purser_refresh_${token}`;
const jwt = `eyJhbGciOiJFUzI1NiJ9.${randomBytes(60).toString('base64url')}.${randomBytes(64).toString('base64url')}`;
const jwe = `eyJhbGciOiJkaXIifQ..${randomBytes(12).toString('base64url')}.${randomBytes(80).toString('base64url')}.${randomBytes(16).toString('base64url')}`;
const kek = randomBytes(32).toString('base64');
const whsec = `whsec_${randomBytes(24).toString('base64')}`;
const password = 'p%2Fw-hunter2';

/** Secrets, and sentences in which they might come along. */
const leaks: [what: string, secret: string, text: string][] = [
  ['an API key', key, `no account for ${key}`],
  ['an API key in a query', key, `GET /x?api_key=${key}&y=1`],
  ['a refresh token', refreshToken, `{"refresh_token":"${refreshToken}"}`],
  ['an exchange code', `purser_code_${token}`, `code purser_code_${token} was used`],
  ['an access token', jwt, `verify(${jwt}) failed`],
  ['a sealed text', jwe, `opened ${jwe}`],
  ['a bearer credential', 'abcdefgh.ijkl', 'Authorization: Bearer abcdefgh.ijkl'],
  ['the secret of a webhook', whsec, `signed with ${whsec}.`],
  ['the token of a link', token, `https://purser.example.com/approve/${token}`],
  ['the token of a link alone', token, `no link ${token}`],
  ['a private key', token, `{"kty":"OKP","d":"${token}"}`],
  ['a key-encryption key', kek, `kek ${kek}`],
  ['the password of a database', password, `connect postgres://purser_app:${password}@db:5432/purser failed`],
  ['a password with an at-sign', 'p@ss@w', 'postgres://u:p@ss@w@db/purser'],
  ['the password of a mail server', password, `smtps://user:${password}@mail.example.com:465`],
  [
    'a key in the path of an RPC endpoint',
    'mYkEy0123',
    'HTTP request failed. URL: https://base.example.com/v2/mYkEy0123 Status: 429',
  ],
  ['a key in the query of an RPC endpoint', 'mYkEy0123', '"url":"https://base.example.com?apikey=mYkEy0123"'],
  ['a key in the fragment of a web address', 'mYkEy0123', 'https://base.example.com#mYkEy0123'],
  ['the secret path of a receiver', 'T000/B000/XyZ', 'POST https://hooks.example.com/services/T000/B000/XyZ'],
];

describe('a text without secrets', () => {
  it.each(leaks)('does not hold %s', (_what, secret, text) => {
    expect(text).toContain(secret);
    expect(withoutSecrets(text)).not.toContain(secret);
  });

  it.each([
    'Port 8080 is in use. Set PURSER_PORT to a free one.',
    '{"url":"http://127.0.0.1:8080","msg":"listening"}',
    '{"transaction_id":"txn_01jd8zkq7xek8tz0d3g7h8j9ka","hash":"0x4e3a3754410177e6937ef1f84bba68ea139e8d1a2258c5f85db9f1cd715a1bdd"}',
    '{"request_id":"2b1c6b1e-6f0e-4f0e-9a51-0b1f6d3c7e11","path":"/api/v1/agents/agt_01jd8zkq7xek8tz0d3g7h8j9ka"}',
    '{"address":"0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF","prefix":"purser_test_3fGh…"}',
    'no bearer of bad news, no basic facts',
  ])('leaves %s', (text) => {
    expect(withoutSecrets(text)).toBe(text);
  });

  it('tells of a web address where it leads', () => {
    expect(withoutSecrets('asked https://u:p@base.example.com:8443/v2/x?y, twice')).toBe(
      'asked https://base.example.com:8443/… twice',
    );
  });

  it('stays the JSON that it was, whatever is in it', () => {
    const piece = fc.oneof(
      fc.string(),
      fc.constantFrom(...leaks.map(([, , text]) => text)),
      fc.webUrl({ withQueryParameters: true }),
    );
    fc.assert(
      fc.property(fc.array(piece), fc.dictionary(fc.string(), piece), (list, members) => {
        const read: unknown = JSON.parse(withoutSecrets(JSON.stringify({ list, members })));
        expect(read).toMatchObject({ list: expect.any(Array), members: expect.any(Object) });
      }),
      { numRuns: 500 },
    );
  });

  it('takes no longer than its length, whatever it is', () => {
    const startedMs = performance.now();
    for (const part of ['a://', '@', 'eyJ', 'x.', 'bearer ', '://@', 'purser_test_', '-', 'http://a@', '%20'])
      withoutSecrets(part.repeat(200_000 / part.length));
    // Some 100 ms; one that looks at each part again for each would take minutes.
    expect(performance.now() - startedMs).toBeLessThan(30_000);
  });
});

describe('a line of the log', () => {
  const written = (work: (log: ReturnType<typeof createLogger>) => void): string => {
    const lines: string[] = [];
    work(createLogger({ process: 'test', level: 'trace', write: (line) => lines.push(line) }));
    return lines.join('');
  };

  it.each(leaks)('does not hold %s, wherever it stands', (_what, secret, text) => {
    const error = new Error(text, { cause: new Error(text) });
    const all = written((log) => {
      log.info(text);
      log.warn({ err: error, error: String(error), other: inspect(error), deep: { deeper: { still: [text] } } }, text);
      log.child({ request_id: text }).trace({ [text]: 1 }, 'as a name');
    });
    expect(
      all
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toHaveLength(3);
    expect(all).not.toContain(secret);
  });

  it.each([
    ...[
      'authorization',
      'cookie',
      'set-cookie',
      'x-api-key',
      'api_key',
      'secret',
      'client_secret',
      'password',
      'd',
      'share',
    ],
    ...['access_token', 'refresh_token', 'exchange_code', 'code_verifier', 'connectionString', 'DATABASE_URL', 'kek'],
  ])('does not hold what is called %s', (name) => {
    const all = written((log) => {
      log.info({ [name]: 'hunter2' });
      log.info({ headers: { [name]: 'hunter2' } });
      log.info({ request: { headers: { [name]: 'hunter2' } } });
    });
    expect(all).not.toContain('hunter2');
    expect(all.match(/\[redacted\]/g)).toHaveLength(3);
  });
});
