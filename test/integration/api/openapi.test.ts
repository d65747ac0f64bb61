import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Access, access } from '../../../api/access.ts';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';

interface Operation {
  operationId: string;
  description: string;
  security?: unknown;
  responses: Record<string, { content: { 'application/json': { examples?: Record<string, { value: unknown }> } } }>;
}
type Paths = Record<string, Record<string, Operation>>;

interface DescribedPolicy {
  title: string;
  properties: { rules: { description?: string; properties: Record<string, { type: unknown }> } };
}
interface Described {
  paths: Record<
    string,
    { post?: { requestBody: { content: { 'application/json': { schema: { oneOf: DescribedPolicy[] } } } } } }
  >;
  components: { schemas: { Policy: { oneOf: DescribedPolicy[] } } };
}

const methods = ['get', 'post', 'put', 'patch', 'delete'];

describe('the OpenAPI document', () => {
  let api: TestApi;
  let account: TestAccount;
  let document: { openapi: string; security: unknown; paths: Paths };

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
    account = await api.account();
    document = (await (await fetch(`${api.url}/openapi.json`)).json()) as typeof document;
  });
  afterAll(() => api?.stop());

  it('is a valid document of OpenAPI 3.1', async () => {
    expect(document.openapi).toMatch(/^3\.1\./);
    expect(await new Validator().validate(structuredClone(document))).toEqual({ valid: true });
  });

  it('has exactly the methods that each of its paths has', async () => {
    for (const [path, operations] of Object.entries(document.paths)) {
      for (const method of methods) {
        const { status } = await account.call(
          method.toUpperCase(),
          path.replaceAll(/\{\w+\}/g, 'x'),
          method === 'get' ? undefined : {},
        );
        expect([path, method, status !== 405]).toEqual([path, method, method in operations]);
      }
    }
  });

  it('has every path of this version of the service', () => {
    expect(Object.keys(document.paths).sort()).toEqual([
      '/api/v1/account',
      '/api/v1/account/members',
      '/api/v1/account/members/{id}',
      '/api/v1/agents',
      '/api/v1/agents/{id}',
      '/api/v1/agents/{id}/balances',
      '/api/v1/agents/{id}/status',
      '/api/v1/api-keys',
      '/api/v1/api-keys/{id}',
      '/api/v1/approvals',
      '/api/v1/approvals/{id}',
      '/api/v1/approvals/{id}/approve',
      '/api/v1/approvals/{id}/reject',
      '/api/v1/audit-logs',
      '/api/v1/audit-logs/export',
      '/api/v1/audit-logs/head',
      '/api/v1/audit-logs/verify',
      '/api/v1/auth/exchange',
      '/api/v1/auth/logout',
      '/api/v1/auth/refresh',
      '/api/v1/events',
      '/api/v1/events/{id}',
      '/api/v1/policies',
      '/api/v1/policies/{id}',
      '/api/v1/policy-templates',
      '/api/v1/policy-templates/{id}',
      '/api/v1/policy-templates/{id}/apply',
      '/api/v1/transactions',
      '/api/v1/transactions/simulate',
      '/api/v1/transactions/{id}',
      '/api/v1/transactions/{id}/approve',
      '/api/v1/transactions/{id}/cancel',
      '/api/v1/transactions/{id}/reject',
      '/api/v1/transactions/{id}/speed-up',
      '/api/v1/webhooks',
      '/api/v1/webhooks/{id}',
      '/api/v1/webhooks/{id}/deliveries',
      '/api/v1/webhooks/{id}/deliveries/{delivery_id}',
      '/api/v1/webhooks/{id}/deliveries/{delivery_id}/redeliver',
      '/api/v1/webhooks/{id}/rotate-secret',
      '/api/v1/webhooks/{id}/test',
      '/api/v1/x402/check',
      '/api/v1/x402/fees/tiers',
      '/api/v1/x402/sessions',
      '/api/v1/x402/sessions/{id}',
      '/api/v1/x402/sessions/{id}/pay',
      '/api/v1/x402/sessions/{id}/payments',
      '/api/v1/x402/sessions/{id}/payments/{ledger_id}',
    ]);
  });

  it('describes every operation, and every error status with an example', () => {
    for (const operations of Object.values(document.paths)) {
      for (const operation of Object.values(operations)) {
        expect(operation.description.length).toBeGreaterThan(10);
        const { 200: _done, ...errors } = operation.responses;
        expect(Object.keys(errors)).toEqual(expect.arrayContaining(['400', '401', '403', '405', '429', '500', '503']));
        for (const { content } of Object.values(errors))
          expect(Object.keys(content['application/json'].examples ?? {})).not.toHaveLength(0);
      }
    }
  });

  it('takes a key or a token, a token only where a person is needed, and nothing where anybody may ask', () => {
    expect(document.security).toEqual([{ apiKey: [] }, { accessToken: [] }]);
    const needed = Object.values(document.paths).flatMap((operations) =>
      Object.values(operations).map(({ operationId, security }) => [operationId, security]),
    );
    const wanted = Object.entries<Access>(access).map(([operationId, allowed]) => {
      if (allowed.by === 'anybody') return [operationId, []];
      return [operationId, allowed.scope === null ? [{ accessToken: [] }] : undefined];
    });
    const inUse = new Set(needed.map(([operationId]) => operationId));
    const byName = (list: unknown[][]) => list.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1));
    expect(byName(needed)).toEqual(byName(wanted.filter(([operationId]) => inUse.has(operationId))));
    expect(wanted).toContainEqual(['createApiKey', [{ accessToken: [] }]]);
  });

  it('says that null leaves a member of rules out, where they are asked for and where it may be left out', () => {
    const { paths, components } = document as unknown as Described;
    const asked = paths['/api/v1/policies']!.post!.requestBody.content['application/json'].schema.oneOf;
    const typesOf = (policies: DescribedPolicy[], type: string) => {
      const { rules } = policies.find(({ title }) => title === type)!.properties;
      return [rules.description!.length > 0, ...Object.values(rules.properties).map((member) => member.type)];
    };
    const nullable = ['string', 'null'];
    expect(typesOf(asked, 'spending_limit')).toEqual([true, nullable, nullable, nullable, nullable]);
    expect(typesOf(asked, 'token_control')).toEqual([true, 'array']);
    const answered = components.schemas.Policy.oneOf;
    expect(typesOf(answered, 'spending_limit')).toEqual([true, 'string', 'string', 'string', 'string']);
  });

  it('is shown by a page that takes everything from here', async () => {
    const page = await fetch(`${api.url}/docs`);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    const html = await page.text();
    const links = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]!);
    expect(links).toHaveLength(4);
    for (const link of links) {
      expect(link).toMatch(/^\/docs\//);
      expect((await fetch(api.url + link)).status).toBe(200);
    }
    for (const hidden of ['/docs/package.json', '/docs/..%2fpackage.json', '/docs/index.html'])
      expect((await fetch(api.url + hidden)).status).toBe(404);
  });
});
