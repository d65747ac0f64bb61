import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { familyOf } from '../../../shared/chain/families.ts';
import type { Offer } from '../../../shared/chain/family.ts';
import { storeAttempt } from '../../../shared/db/attempts.ts';
import { startTarget, type TestTarget } from '../../support/target.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import {
  createAgent,
  payment,
  recipient,
  startTestApi,
  type TestAccount,
  type TestApi,
  usdcContract,
} from './harness.ts';
import { offer, paymentRequired } from './x402-calls.ts';

const evm = 'eip155:31337';
const regtest = 'bip122:0f9188f13cb7b2c71f2a335e3a4fc328';
const testnet = 'bip122:000000000933ea01ad0ee984209779ba';
const tron = 'tron:0xcd8690dc';

/** Somebody to be paid on each chain, and what is paid. Source of the Bitcoin addresses: BIP-173. */
const payees: Readonly<Record<string, { to: string; token: string }>> = {
  [evm]: { to: recipient, token: 'ETH' },
  [regtest]: { to: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080', token: 'BTC' },
  [testnet]: { to: 'tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx', token: 'BTC' },
  [tron]: { to: 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8', token: 'TRX' },
};
const others = (chain: string) => Object.entries(payees).filter(([each]) => each !== chain);

const forms: Readonly<Record<string, RegExp>> = {
  [evm]: /^0x[0-9a-fA-F]{40}$/,
  [regtest]: /^bcrt1q[02-9ac-hj-np-z]{38}$/,
  [testnet]: /^tb1q[02-9ac-hj-np-z]{38}$/,
  [tron]: /^T[1-9A-HJ-NP-Za-km-z]{33}$/,
};
const coins: Readonly<Record<string, number>> = { [evm]: 60, [regtest]: 1, [testnet]: 1, [tron]: 195 };

let temporal: OwnTemporal;
let api: TestApi;
let account: TestAccount;
beforeAll(async () => {
  temporal = await startOwnTemporal();
  api = await startTestApi({ temporalAddress: temporal.address, decisionWaitMs: 50, chains: Object.keys(payees) });
  account = await api.account();
});
afterAll(async () => {
  await api?.stop();
  await temporal?.stop();
});

describe.each(Object.keys(payees))('an agent on %s', (chain) => {
  let agent: { id: string; address: string };
  const { to, token } = payees[chain]!;
  const family = familyOf(chain);

  beforeAll(async () => {
    agent = await createAgent(account, { chain });
  });

  const pay = (more: Record<string, unknown> = {}) =>
    account.call('POST', '/api/v1/transactions', {
      ...payment(agent.id, { to_address: to, token, chain, amount: '0.00002', ...more }),
    });
  const setPolicy = (rules: Record<string, unknown>) =>
    account.call('POST', '/api/v1/policies', { agent_id: agent.id, type: 'address_control', rules });

  it('has a child of the account key as its wallet, at the path of its coin', async () => {
    const { rows } = await api.pool.query<{ path: string; public_key: `0x${string}`; chain_code: `0x${string}` }>(
      `select path, public_key, chain_code from wallets join account_keys on account_keys.id = account_key_id
       where agent_id = $1`,
      [agent.id],
    );
    const { path, public_key: publicKey, chain_code: chainCode } = rows[0]!;
    expect(path).toMatch(new RegExp(`^m/44/${coins[chain]}/0/0/\\d+$`));
    expect(agent.address).toMatch(forms[chain]!);
    expect(agent.address).toBe(family.deriveAddress({ publicKey, chainCode, path, chain }));
    expect(family.readAddress(agent.address, chain)).toEqual({ address: agent.address });
  });

  it('pays on its chain, to an address in any form that the chain has', async () => {
    const { status, body } = await pay({ from_address: agent.address });
    expect([status, body]).toMatchObject([
      200,
      { from_address: agent.address, to_address: to, chain, token, amount: '0.00002', nonce: null, attempts: [] },
    ]);
  });

  it('says what is wrong with an address of another chain, or a mistyped one', async () => {
    for (const [, { to: foreign }] of others(chain)) {
      const read = family.readAddress(foreign, chain);
      if ('address' in read) throw new Error('It is no foreign one.');
      for (const param of ['to_address', 'from_address'])
        expect(await pay({ [param]: foreign })).toMatchObject({
          status: 400,
          body: { code: 'invalid_address', param, message: `${param} ${read.sentence}` },
        });
    }
    const mistyped = to.replace(/[4z]/, (digit) => (digit === '4' ? '5' : 'y'));
    expect(await pay({ to_address: mistyped })).toMatchObject({ status: 400, body: { code: 'invalid_address' } });
    expect(await pay({ from_address: to })).toMatchObject({
      status: 400,
      body: { code: 'invalid_address', message: expect.stringContaining(agent.address) },
    });
  });

  it('pays on no other chain but where its wallet has the same address', async () => {
    for (const [other, { to: foreign, token: symbol }] of others(chain)) {
      const answer = await pay({ chain: other, to_address: foreign, token: symbol });
      expect(answer).toMatchObject({
        status: 400,
        body: { code: 'invalid_chain', param: 'chain', message: expect.stringContaining(chain) },
      });
    }
  });

  it('pays itself only where that moves something', async () => {
    const answer = await pay({ to_address: agent.address });
    if (family.selfPayment === undefined) expect(answer.status).toBe(200);
    else
      expect(answer).toMatchObject({
        status: 400,
        body: {
          ...{ code: 'invalid_address', param: 'to_address' },
          message: expect.stringContaining(family.selfPayment),
        },
      });
  });

  it('is limited to addresses of its chain', async () => {
    expect(await setPolicy({ blocked_addresses: [to] })).toMatchObject({
      status: 200,
      body: { rules: { blocked_addresses: [to] } },
    });
    for (const [, { to: foreign }] of others(chain)) {
      const answer = await setPolicy({ allowed_addresses: [to, foreign] });
      expect(answer).toMatchObject({
        status: 400,
        body: {
          ...{ code: 'invalid_address', param: 'rules.allowed_addresses.1' },
          message: expect.stringMatching(
            new RegExp(`^rules.allowed_addresses.1 .* Agent ${agent.id} pays on ${chain}\\.$`),
          ),
        },
      });
    }
  });

  it('keeps its rules where they are replaced by an address that it cannot pay', async () => {
    const { body: policy } = await setPolicy({ blocked_addresses: [to] });
    const path = `/api/v1/policies/${policy.id}`;
    for (const [, { to: foreign }] of others(chain))
      expect(await account.call('PUT', path, { rules: { blocked_addresses: [foreign] } })).toMatchObject({
        status: 400,
        body: { code: 'invalid_address', param: 'rules.blocked_addresses.0' },
      });
    expect((await account.call('GET', path)).body).toEqual(policy);
  });

  it('gets a template whole or not at all: one of its addresses may be of another chain', async () => {
    const anywhere = Object.values(payees).map(({ to: address }) => address);
    const policies = [
      { type: 'velocity_control', rules: { max_count: 5, window_seconds: 60 } },
      { type: 'address_control', rules: { blocked_addresses: anywhere } },
    ];
    const make = async (content: unknown) =>
      (await account.call('POST', '/api/v1/policy-templates', { name: `${chain} ${content}`, policies })).body;
    const template = await make(1);
    expect(template.policies).toEqual(policies);
    const apply = (id: string) =>
      account.call('POST', `/api/v1/policy-templates/${id}/apply`, { agent_id: agent.id, mode: 'replace' });
    const before = (await account.call('GET', `/api/v1/policies?agent_id=${agent.id}`)).body;
    const at = anywhere.findIndex((address) => address !== to);
    expect(await apply(template.id)).toMatchObject({
      status: 400,
      body: {
        ...{ code: 'invalid_address', param: 'agent_id' },
        message: expect.stringContaining(`policies.1.rules.blocked_addresses.${at} of template ${chain} 1 `),
      },
    });
    expect((await account.call('GET', `/api/v1/policies?agent_id=${agent.id}`)).body).toEqual(before);
    policies[1] = { type: 'address_control', rules: { blocked_addresses: [to] } };
    expect((await apply((await make(2)).id)).status).toBe(200);
  });

  it('names in a template no address that no chain here has', async () => {
    const policies = [{ type: 'address_control', rules: { blocked_addresses: ['vitalik.eth'] } }];
    expect(await account.call('POST', '/api/v1/policy-templates', { name: 'wrong', policies })).toMatchObject({
      status: 400,
      body: { code: 'invalid_address', message: expect.stringMatching(/On eip155:31337 it .*On tron:0xcd8690dc it /) },
    });
  });

  const x402 = chain === evm ? [] : [chain];
  it.each(x402)('has no x402 session on %s, where no token is paid by authorisation', async () => {
    const session = { agent_id: agent.id, budget_limit: '1', chain, ttl_seconds: 60 };
    expect(await account.call('POST', '/api/v1/x402/sessions', session)).toMatchObject({
      status: 400,
      body: { code: 'invalid_chain', param: 'chain', message: expect.stringMatching(/ It can on eip155:31337\.$/) },
    });
  });

  it('shows of each attempt what it offers, in the terms of its chain', async () => {
    const { body } = await pay();
    const offered: Offer = {
      max_fee_per_gas: null,
      max_priority_fee_per_gas: null,
      fee_rate: '12.345',
      expires_at: null,
    };
    const attempt = { hash: `hash of ${body.id}`, raw: '00', purpose: 'payment', version: 1, offer: offered } as const;
    await storeAttempt(api.pool, { transactionId: body.id, ...attempt });
    const path = `/api/v1/transactions/${body.id}`;
    expect((await account.call('GET', path)).body.attempts).toMatchObject([{ hash: attempt.hash, ...offered }]);
    const fee = 10n ** BigInt(family.feeDecimals) / 4n;
    await api.pool.query('update transactions set fee_minor = $2 where id = $1', [body.id, fee.toString()]);
    expect((await account.call('GET', path)).body.fee).toBe('0.25');
  });

  it('cancels what is not signed, and what is signed only where that can be done', async () => {
    const cancel = (id: string) => account.call('POST', `/api/v1/transactions/${id}/cancel`);
    const { body: early } = await pay();
    expect(await cancel(early.id)).toMatchObject({ status: 200, body: { failure_code: 'cancelled' } });
    const { body: signed } = await pay();
    const attempt = { hash: `${signed.id}`, raw: '00', purpose: 'payment', version: 1 } as const;
    const nothing = { max_fee_per_gas: null, max_priority_fee_per_gas: null, fee_rate: null, expires_at: null };
    await storeAttempt(api.pool, { transactionId: signed.id, ...attempt, offer: nothing });
    const speedUp = await account.call('POST', `/api/v1/transactions/${signed.id}/speed-up`);
    const cancelled = await cancel(signed.id);
    if (family.irreplaceable === undefined) {
      expect([speedUp.status, cancelled.status]).toEqual([200, 200]);
      return;
    }
    const details = { transaction_id: signed.id, status: 'pending' };
    expect([speedUp, cancelled]).toMatchObject([
      { status: 409, body: { code: 'transaction_not_replaceable', details } },
      { status: 409, body: { code: 'transaction_not_cancellable', details } },
    ]);
    expect(speedUp.body.message).toBe(
      `Transaction ${signed.id} is signed: it cannot be sped up. ${family.irreplaceable}`,
    );
    expect(cancelled.body.message).toContain(family.irreplaceable);
  });
});

describe('a target that offers several chains', () => {
  let target: TestTarget;
  const offers = [
    offer({ network: regtest, asset: 'native', payTo: payees[regtest]!.to, extra: null }),
    offer({ network: tron, asset: 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf', payTo: payees[tron]!.to, extra: null }),
    offer({ asset: usdcContract.toLowerCase() }),
  ];

  beforeAll(async () => {
    target = await startTarget((_, response) => response.writeHead(402, paymentRequired(offers)).end());
  });
  afterAll(() => target?.stop());

  it('is told apart by what can be paid: not on Bitcoin, not on Tron', async () => {
    const { status, body } = await account.call('POST', '/api/v1/x402/check', { url: target.url });
    expect([status, body.offers]).toMatchObject([
      200,
      [
        { network: regtest, acceptable: false, reason: expect.stringMatching(/^asset /) },
        { network: tron, token: 'USDT', acceptable: false, reason: expect.stringContaining('EIP-3009') },
        { network: evm, token: 'USDC', acceptable: true, reason: null },
      ],
    ]);
  });
});
