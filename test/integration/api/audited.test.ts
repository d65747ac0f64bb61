import { generateKeyPairSync } from 'node:crypto';
import { authorizationTypes } from '@x402/evm';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createIssueAuthorization } from '../../../activities/issue-authorization.ts';
import { createStampAuthorization } from '../../../activities/stamp-authorization.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { getX402Payment } from '../../../shared/db/x402-payments.ts';
import { importReceiptKey } from '../../../shared/receipt.ts';
import { insertTestAgent } from '../../support/rows.ts';
import type { TestTarget } from '../../support/target.ts';
import { insertTestLedger, insertTestSession, payer } from '../../support/x402-ledger.ts';
import { auditedEndpoints } from './audited-endpoints.ts';
import { ann, type World } from './audited-world.ts';
import { askByMail, form, maria, post } from './mailed-question.ts';
import { startApiWithChain } from './with-chain.ts';
import { startShop } from './x402-calls.ts';

type Answer = Awaited<ReturnType<World['account']['call']>>;

describe('the audit log of the API', () => {
  let world: World;
  let shop: TestTarget;
  let operations: { id: string; method: string; path: string; isPost: boolean }[];
  const links: string[] = [];

  beforeAll(async () => {
    const chain = await startApiWithChain({ hasDead: false });
    shop = await startShop({ asset: chain.local.usdcAddress });
    const account = await chain.api.account();
    const person = await account.person(ann);
    const { rows } = await chain.api.pool.query('select id from api_keys where account_id = $1', [account.id]);
    const secrets = [account.key, person.token];
    world = { ...chain, account, keyId: rows[0].id, person, shopUrl: shop.url, secrets };
    const document = (await (await fetch(`${chain.api.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { operationId: string }>>;
    };
    operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([method]) => ['post', 'put', 'patch', 'delete'].includes(method))
        .map(([method, { operationId }]) => ({ id: operationId, method, path, isPost: method === 'post' })),
    );
  });
  afterAll(async () => {
    await shop?.stop();
    await world?.stop();
  });

  async function entriesOf(requestId: string) {
    const { rows } = await world.api.pool.query('select * from audit_inbox where request_id = $1', [requestId]);
    return rows;
  }
  let requests = 0;
  const newRequestId = () => {
    requests += 1;
    return `request-${requests}`;
  };

  it('knows of every endpoint that changes something how it is logged, or why it is not', () => {
    expect(Object.keys(auditedEndpoints).toSorted()).toEqual(operations.map(({ id }) => id).toSorted());
    for (const endpoint of Object.values(auditedEndpoints))
      if ('writesNone' in endpoint) expect(endpoint.writesNone.length).toBeGreaterThan(20);
  });

  it.each(Object.keys(auditedEndpoints))('has just one entry of %s, also where it is repeated', async (id) => {
    const endpoint = auditedEndpoints[id]!;
    const { method, path, isPost } = operations.find((each) => each.id === id)!;
    const prepared = await endpoint.prepare(world);
    const call = prepared.call ?? (endpoint.by === 'person' ? world.person.call : world.account.call);
    const url = prepared.ids?.reduce((template, given) => template.replace(/\{\w+\}/, given), path) ?? path;
    const ask = async (body: unknown): Promise<[string, Answer]> => {
      const requestId = newRequestId();
      const headers = {
        'x-request-id': requestId,
        'user-agent': 'audited/1',
        ...(isPost && { 'idempotency-key': id }),
      };
      return [requestId, await call(method.toUpperCase(), url, body, headers)];
    };
    if (method !== 'delete') {
      const [refusedId, refused] = await ask({ ...(prepared.body as object), no_such_member: true });
      expect([refused.status, await entriesOf(refusedId)]).toEqual([400, []]);
    }
    const [requestId, answer] = await ask(prepared.body);
    expect([id, answer.status, JSON.stringify(answer.body)]).toEqual([id, 200, expect.any(String)]);
    const entries = await entriesOf(requestId);
    const secretsIn = 'secretsIn' in endpoint ? endpoint.secretsIn : undefined;
    if (secretsIn) world.secrets.push(...secretsIn(answer.body));
    if (isPost) {
      const [repeatId, repeat] = await ask(prepared.body);
      const repeated = (await entriesOf(repeatId)).map(({ action }) => action);
      expect(repeated).toEqual('endsSession' in endpoint ? ['credential.denied'] : []);
      if (secretsIn) expect([repeat.status, repeat.body.code]).toEqual([409, 'idempotency_key_conflict']);
      else if ('endsSession' in endpoint) expect(repeat.status).toBe(401);
      else expect(repeat.body).toEqual(answer.body);
    }
    if ('writesNone' in endpoint) {
      expect(entries).toEqual([]);
      return;
    }
    const byKey = { actor_type: 'api_key', actor_id: world.keyId, actor_name: 'test' };
    const byPerson = { actor_type: 'user', actor_id: world.person.userId, actor_name: ann };
    const byDefault = endpoint.by === 'person' ? byPerson : byKey;
    const { action, resource, agent, changes, actor = byDefault } = endpoint.entry(answer.body, prepared);
    expect(entries).toMatchObject([
      {
        ...{ action, resource_type: resource[0], resource_id: resource[1], agent_id: agent ?? null, ...actor },
        ...{ account_id: world.account.id, result: 'success', ip_address: '127.0.0.1', user_agent: 'audited/1' },
        changes: changes ?? null,
      },
    ]);
  });

  it('has no entry of a change that changes nothing', async () => {
    const { body: agent } = await world.account.call('POST', '/api/v1/agents', {
      agent_name: 'the same',
      chain: 'eip155:31337',
    });
    const requestId = newRequestId();
    const again = { 'x-request-id': requestId };
    const same = { status: 'active' };
    expect((await world.account.call('PUT', `/api/v1/agents/${agent.id}/status`, same, again)).status).toBe(200);
    expect(await entriesOf(requestId)).toEqual([]);
  });

  it('says who has decided by the link in a mail, and from where', async () => {
    const question = await askByMail(world.api, world.account);
    const { url, token } = await question.link();
    links.push(token);
    const requestId = newRequestId();
    await post(url, form({ decision: 'rejected', note: '' }), { 'x-request-id': requestId, 'user-agent': 'browser/1' });
    expect(await entriesOf(requestId)).toMatchObject([
      {
        ...{ action: 'approval.rejected', actor_type: 'approver', actor_id: maria, resource_id: question.approvalId },
        ...{ ip_address: '127.0.0.1', user_agent: 'browser/1', metadata: { via: 'link' } },
        changes: { before: { status: 'pending' }, after: { status: 'rejected' } },
      },
    ]);
  });

  it('has a signature for x402, without what was signed', async () => {
    const { pool } = world.api;
    const policyKey = await importReceiptKey(
      JSON.stringify(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })),
    );
    const agent = await insertTestAgent(pool);
    const { id } = await insertTestLedger(pool, await insertTestSession(pool, agent));
    const given = await createStampAuthorization({ pool, clock: databaseClock, policyKey })(id);
    if (given.outcome !== 'stamped') throw new Error(given.outcome);
    const { domain, from, to, value, validAfter, validBefore, nonce } = given.allotment.payload.authorization;
    const signature = await payer.signTypedData({
      domain,
      types: authorizationTypes,
      primaryType: 'TransferWithAuthorization',
      message: {
        from,
        to,
        nonce,
        value: BigInt(value),
        validAfter: BigInt(validAfter),
        validBefore: BigInt(validBefore),
      },
    });
    const issue = createIssueAuthorization({ pool, clock: databaseClock });
    await Promise.all([issue(id, signature), issue(id, signature)]);
    const { rows } = await pool.query(
      `select action, actor_type, result, metadata from audit_inbox where resource_id = $1 and action = 'x402_payment.signed'`,
      [id],
    );
    expect(rows).toEqual([
      {
        ...{ action: 'x402_payment.signed', actor_type: 'system', result: 'success' },
        metadata: { session_id: expect.stringMatching(/^sess_/), nonce, valid_before: validBefore },
      },
    ]);
    const header = (await getX402Payment(pool, { id }))!.payment_signature!;
    world.secrets.push(header, signature, signature.slice(2));
  });

  it('F9 holds no key, token, secret, link or signed authorisation, and neither does any event', async () => {
    const { pool } = world.api;
    const secrets = [...world.secrets, ...links];
    expect(secrets.length).toBeGreaterThan(7);
    let rows = 0;
    for (const table of ['events', 'audit_inbox', 'audit_logs', 'webhook_deliveries', 'webhook_attempts']) {
      const { rows: all } = await pool.query<{ text: string }>(`select row_to_json(t)::text as text from ${table} t`);
      rows += all.length;
      for (const { text } of all)
        for (const secret of secrets)
          if (text.includes(secret)) throw new Error(`${table} holds a secret: ${text.replaceAll(secret, '[secret]')}`);
    }
    expect(rows).toBeGreaterThan(40);
  });

  it('is kept with its change, or the change is not made', async () => {
    const { call } = world.account;
    const made = { agent_name: 'not logged', chain: 'eip155:31337' };
    const { body: agent } = await call('POST', '/api/v1/agents', { ...made, agent_name: 'logged' });
    const policy = { agent_id: agent.id, type: 'spending_limit', rules: { daily_limit: '1' } };
    const template = { name: 'not logged', policies: [{ type: policy.type, rules: policy.rules }] };
    await withoutInbox(async () => {
      expect((await call('POST', '/api/v1/agents', made)).status).toBe(500);
      expect((await call('PUT', `/api/v1/agents/${agent.id}/status`, { status: 'inactive' })).status).toBe(500);
      expect((await call('POST', '/api/v1/policies', policy)).status).toBe(500);
      expect((await call('POST', '/api/v1/policy-templates', template)).status).toBe(500);
    });
    expect((await call('GET', `/api/v1/agents/${agent.id}`)).body).toEqual(agent);
    expect((await call('GET', `/api/v1/policies?agent_id=${agent.id}`)).body.total).toBe(0);
    for (const path of ['agents', 'policy-templates']) {
      const { body } = await call('GET', `/api/v1/${path}?page_size=100`);
      expect(JSON.stringify(body)).not.toContain('not logged');
    }
  });

  /** Has the table be away for a while. */
  async function withoutInbox(work: () => Promise<void>): Promise<void> {
    const owner = new pg.Client({ connectionString: world.api.ownerUrl });
    await owner.connect();
    await owner.query('alter table audit_inbox rename to audit_inbox_away');
    try {
      await work();
    } finally {
      await owner.query('alter table audit_inbox_away rename to audit_inbox');
      await owner.end();
    }
  }
});
