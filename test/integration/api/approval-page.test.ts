import express from 'express';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accessLog } from '../../../api/middleware/access-log.ts';
import { createRequestId } from '../../../api/middleware/request-id.ts';
import { createApprovalPageRouter } from '../../../api/routes/approval-page.ts';
import { startServer } from '../../../api/server.ts';
import { approvalPath, hashApprovalToken, makeApprovalToken } from '../../../shared/approval-token.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { askByMail, ben, form, maria, post } from './mailed-question.ts';
import { type Demand, expireIn } from './questions.ts';

const nobody = '127.0.0.1:1';

const written: string[] = [];
const log = pino({ level: 'trace' }, { write: (line: string) => written.push(line) });

let api: TestApi;
let account: TestAccount;

beforeAll(async () => {
  api = await startTestApi({ temporalAddress: nobody, log });
  account = await api.account();
});
afterAll(async () => {
  await api?.stop();
});

const ask = (demand: Partial<Demand> = {}) => askByMail(api, account, demand);
const headingOf = (text: string) => text.match(/<h1>(.*)<\/h1>/)?.[1];

/** A digest of every row of every table. */
async function wholeDatabase(pool: Pool): Promise<Record<string, string>> {
  const { rows } = await pool.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class
     where relnamespace = 'public'::regnamespace and relkind = 'r' and has_table_privilege(oid, 'select')`,
  );
  expect(rows.length).toBeGreaterThan(10);
  const digests: Record<string, string> = {};
  for (const { name } of rows) {
    const digest = `select md5(coalesce(string_agg(t::text, '|' order by t::text), '')) as digest from ${name} t`;
    digests[name] = (await pool.query<{ digest: string }>(digest)).rows[0]!.digest;
  }
  return digests;
}

describe('opening a link', () => {
  it('changes nothing, whoever opens it and however often', async () => {
    const question = await ask();
    const { url } = await question.link();
    const before = await wholeDatabase(api.pool);
    for (const headers of [{}, { 'sec-purpose': 'prefetch' }, { purpose: 'prefetch' }, { 'user-agent': 'LinkScanner' }])
      for (const method of ['GET', 'HEAD']) {
        const response = await fetch(url, { method, headers });
        expect(response.status).toBe(200);
        expect((await response.text()) === '').toBe(method === 'HEAD');
      }
    expect((await fetch(`${url}?decision=approved&note=x`)).status).toBe(200);
    for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const response = await fetch(url, { method });
      expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST']);
    }
    expect(await wholeDatabase(api.pool)).toEqual(before);
  });

  it('answers with headers that let nothing in and nothing out', async () => {
    const { url } = await (await ask()).link();
    const { headers } = await fetch(url);
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/=]+'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/,
    );
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('x-robots-tag')).toContain('noindex');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(headers.get('set-cookie')).toBeNull();
  });

  it('ignores what mail programs add to the query, and leaves it out of the form', async () => {
    const { url, token } = await (await ask()).link();
    const text = await (await fetch(`${url}?utm_source="><script>&utm_medium=mail`)).text();
    expect(text).toContain(`action="${token}"`);
    expect(text).not.toContain('utm_');
  });

  it('goes from a trailing slash to the page', async () => {
    const { url, token } = await (await ask()).link();
    const response = await fetch(`${url}/`, { redirect: 'manual' });
    expect([response.status, response.headers.get('location')]).toEqual([308, `../${token}`]);
    expect((await fetch(`${url}/`)).status).toBe(200);
  });

  it('shows one and the same page for every link of no question', async () => {
    const { token } = await (await ask()).link();
    const swapped = [...token].map((each) => (each === each.toUpperCase() ? each.toLowerCase() : each.toUpperCase()));
    const altered = `${token.slice(0, 20)}${token[20] === 'a' ? 'b' : 'a'}${token.slice(21)}`;
    const paths = [
      ...['/approve', '/approve/', '/approve/x', `/approve/${token.slice(0, -1)}`, `/approve/${token}x`],
      ...[`/approve/${altered}`, `/approve/${swapped.join('')}`, `/approve/${makeApprovalToken().token}`],
      ...['/approve/%zz', '/approve/%ff', `/approve/${token}%00`, `/approve/a/b`, `/approve//${token}`],
    ];
    const pages = new Set<string>();
    for (const path of paths)
      for (const init of [{}, { method: 'POST', body: form({ decision: 'approved' }) }]) {
        const response = await fetch(api.url + path, init);
        expect([path, response.status]).toEqual([path, 404]);
        pages.add(await response.text());
      }
    expect([...pages].map(headingOf)).toEqual(['This link does not work']);
  });
});

describe('the form', () => {
  it('decides once, by the same operation as every door, and goes back to the page', async () => {
    const question = await ask();
    const { url, token } = await question.link();
    const response = await post(url, form({ decision: 'approved', note: 'Checked.\r\nTwice.' }));
    expect([response.status, response.headers.get('location')]).toEqual([303, token]);
    expect(headingOf(await (await fetch(url)).text())).toBe('You approved this payment');
    const { status, decisions } = await question.now();
    expect([status, decisions]).toMatchObject([
      'approved',
      [{ approver: maria, decision: 'approved', note: 'Checked.\nTwice.' }],
    ]);
    const { rows } = await api.pool.query(
      `select actor_type, actor_id, metadata->>'via' as via, ip_address, request_id,
              changes->'before'->>'status' as before, changes->'after'->>'status' as after
       from audit_inbox where resource_id = $1 and action = 'approval.approved'`,
      [question.approvalId],
    );
    const request_id = response.headers.get('x-request-id');
    expect(rows).toEqual([
      {
        ...{ actor_type: 'approver', actor_id: maria, via: 'link', ip_address: '127.0.0.1', request_id },
        ...{ before: 'pending', after: 'approved' },
      },
    ]);
    const used = await api.pool.query('select used_at from approval_links where token_hash = $1', [
      hashApprovalToken(token),
    ]);
    expect(used.rows[0].used_at).toBeInstanceOf(Date);
  });

  it('does not decide a second time, by the same link or another of the same person', async () => {
    const question = await ask();
    const [first, second] = [await question.link(), await question.link()];
    await post(first.url, form({ decision: 'approved' }));
    const before = await wholeDatabase(api.pool);
    for (const { url } of [first, second]) {
      expect((await post(url, form({ decision: 'approved' }))).status).toBe(303);
      const response = await post(url, form({ decision: 'rejected' }));
      expect(response.status).toBe(409);
      const text = await response.text();
      expect(text).toContain('Your last answer was not counted.');
      expect(headingOf(text)).toBe('You approved this payment');
    }
    expect(await wholeDatabase(api.pool)).toEqual(before);
  });

  it('says so to one of several who comes back before the others have answered', async () => {
    const question = await ask({ required: 2 });
    const { url } = await question.link();
    await post(url, form({ decision: 'approved' }));
    expect(headingOf(await (await fetch(url)).text())).toBe('You approved. One more person has to.');
    expect((await post(url, form({ decision: 'rejected' }))).status).toBe(409);
    expect((await question.now()).decisions).toHaveLength(1);
    const other = await question.link(ben);
    expect((await post(other.url, form({ decision: 'approved' }))).status).toBe(303);
    expect(headingOf(await (await fetch(url)).text())).toBe('You and one other person approved this payment');
  });

  it('decides nothing too late, nor for somebody who is not asked', async () => {
    const late = await ask();
    const link = await late.link();
    await expireIn(api, { approvalId: late.approvalId, ms: -1 });
    const response = await post(link.url, form({ decision: 'approved' }));
    expect([response.status, headingOf(await response.text())]).toEqual([400, 'The time to answer is over']);
    const question = await ask();
    const stranger = await question.link('stranger@northwind.example');
    const refused = await post(stranger.url, form({ decision: 'approved' }));
    expect([refused.status, headingOf(await refused.text())]).toEqual([403, 'You are not asked any more']);
    for (const each of [late, question]) expect((await each.now()).decisions).toEqual([]);
  });

  it.each<[string, Parameters<typeof post>[1], Record<string, string>]>([
    ['no decision', form({ note: 'kept' }), {}],
    ['an unknown decision', form({ decision: 'maybe', note: 'kept' }), {}],
    ['two decisions', 'decision=approved&decision=rejected', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['a note that is too long', form({ decision: 'approved', note: `kept${'x'.repeat(1024)}` }), {}],
    ['a note of a megabyte', form({ decision: 'approved', note: 'x'.repeat(1_000_000) }), {}],
    ['JSON', '{"decision":"approved"}', { 'content-type': 'application/json' }],
    ['no content type', new Blob(['decision=approved']), {}],
    ['broken encoding', 'decision=approved&note=%zz', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['wrong UTF-8', 'decision=approved&note=%ff', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['nothing', '', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['a compressed body', form({ decision: 'approved' }), { 'content-encoding': 'gzip' }],
  ])('comes back with 400 after %s, and decides nothing', async (what, body, headers) => {
    const question = await ask();
    const { url } = await question.link();
    const response = await post(url, body, headers);
    const text = await response.text();
    expect([response.status, headingOf(text)]).toEqual([400, 'Approve this payment?']);
    expect(text).toMatch(/id="(note|answer)-error"/);
    if (/note that|decision$/.test(what) && !what.startsWith('two')) expect(text).toContain('\nkept');
    expect((await question.now()).decisions).toEqual([]);
  });

  it.each<[Record<string, string>, number]>([
    [{ 'sec-fetch-site': 'cross-site' }, 403],
    [{ 'sec-fetch-site': 'same-site' }, 403],
    [{ origin: 'https://evil.example' }, 403],
    [{ origin: 'nonsense' }, 403],
    [{ 'sec-fetch-site': 'cross-site', origin: 'null' }, 403],
    [{ 'sec-fetch-site': 'same-origin', origin: 'null' }, 303],
    [{ 'sec-fetch-site': 'none' }, 303],
    [{ origin: 'null' }, 303],
    [{}, 303],
  ])('that comes with %j is answered with %i', async (headers, status) => {
    const question = await ask();
    const { url } = await question.link();
    expect((await post(url, form({ decision: 'approved' }), headers)).status).toBe(status);
    expect((await question.now()).decisions).toHaveLength(status === 303 ? 1 : 0);
  });

  it('from our own origin is taken when only Origin says so', async () => {
    const { url } = await (await ask()).link();
    expect((await post(url, form({ decision: 'approved' }), { origin: api.url })).status).toBe(303);
  });
});

/** The page alone, with a pool whose database transactions fail, or everything. */
async function startBroken({ pool }: { pool: Pool }) {
  const app = express();
  app.use(createRequestId({ log }), accessLog);
  app.use(createApprovalPageRouter({ pool, registry: api.registry, tellAnswer: async () => {} }));
  return startServer({ app, host: '127.0.0.1', port: 0, log });
}

describe('while the database is away', () => {
  it('says that nothing was decided when that is certain', async () => {
    const away = createPool({ url: 'postgres://purser_app@127.0.0.1:1/purser', application: 'test-away' });
    const server = await startBroken({ pool: away });
    const { token } = makeApprovalToken();
    for (const init of [{}, { method: 'POST', body: form({ decision: 'approved' }) }]) {
      const response = await fetch(server.url + approvalPath(token), init);
      expect(response.status).toBe(503);
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      expect(await response.text()).toContain('Nothing was decided.');
    }
    await server.stop();
    await away.end();
  });

  it.each([
    ['away', 503, Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })],
    ['at fault', 500, new Error('fault')],
  ])('and %s during an answer, it does not claim to know', async (_what, status, error) => {
    const { token, url } = await (await ask()).link();
    const pool: Pool = Object.create(api.pool, { connect: { value: () => Promise.reject(error) } });
    // Single statements take a connection by themselves, and must still get one.
    Object.defineProperty(pool, 'query', { value: api.pool.query.bind(api.pool) });
    const server = await startBroken({ pool });
    const response = await post(server.url + approvalPath(token), form({ decision: 'approved' }));
    const text = await response.text();
    expect([response.status, headingOf(text)]).toEqual([status, 'We do not know whether your answer was counted']);
    expect(text).toContain(`<a href="${token}">`);
    expect(text).not.toContain('Nothing was decided');
    expect((await fetch(url)).status).toBe(200);
    await server.stop();
  });
});

describe('the log', () => {
  it('holds no token of a link, however it was asked for', async () => {
    const { token, url } = await (await ask()).link();
    const from = written.length;
    for (const path of [
      ...[approvalPath(token), `/Approve/${token}`, `//approve/${token}`, `/%61pprove/${token}`, `/approve%2F${token}`],
      ...[`/api/v1/approve/${token}`, `/approve/${token}/%zz`, `/${token}`, `/docs/${token}?x=${token}`],
    ])
      await fetch(api.url + path);
    await post(url, form({ decision: 'approved' }));
    await expect.poll(() => written.slice(from).filter((line) => line.includes('"msg":"request"')).length).toBe(10);
    const lines = written.join('');
    expect(lines).toContain('/approve/…');
    expect(lines).not.toContain(token);
    // Neither did any test before this one leave something that is as long as a token.
    expect(written.filter((line) => /approve\/[\w-]{20}/i.test(line))).toEqual([]);
  });
});
