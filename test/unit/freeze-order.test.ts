import fc from 'fast-check';
import { CompactSign, type CryptoKey, generateKeyPair } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  FREEZE_ORDER_MAX,
  FREEZE_SUBJECTS_MAX,
  fitFreezes,
  readFreezeOrder,
  signFreezeOrder,
  verifyFreezeOrder,
} from '../../shared/freeze-order.ts';
import { BODY_BYTES_MAX } from '../../signer/wire.ts';

const now = new Date('2026-03-01T00:00:00Z');
const state = { version: 7, installation: false, accounts: ['acct_1'], agents: ['agent_1'] };
let policy: { privateKey: CryptoKey; publicKey: CryptoKey };
beforeAll(async () => {
  policy = await generateKeyPair('EdDSA');
});

const signed = (claims: object, typ = 'purser-freeze+jws', key = policy.privateKey) =>
  new CompactSign(Buffer.from(JSON.stringify(claims))).setProtectedHeader({ alg: 'EdDSA', typ }).sign(key);

describe('an order about freezes', () => {
  it('says what was signed', async () => {
    const order = await signFreezeOrder(policy.privateKey, { state, now });
    expect(await verifyFreezeOrder(policy.publicKey, order)).toMatchObject(state);
    expect(readFreezeOrder(order)).toMatchObject(state);
  });

  it('counts by no other key, as no other document, and in no other shape', async () => {
    const iat = now.getTime() / 1000;
    const { privateKey: stranger } = await generateKeyPair('EdDSA');
    const good = { ...state, iat };
    await expect(verifyFreezeOrder(policy.publicKey, await signed(good))).resolves.toMatchObject(state);
    const bad: [string, RegExp][] = [
      [await signed(good, undefined, stranger), /not signed by the policy key \(ERR_JWS_SIGNATURE/],
      [await signed(good, 'purser-receipt+jwt'), /no order about freezes/],
      [await signed({ ...good, version: -1 }), /not valid at version/],
      [await signed({ ...good, accounts: 'acct_1' }), /not valid at accounts/],
      [await signed({ ...good, until: iat }), /not valid at/],
      [await signed({ version: 7 }), /not valid at/],
      ['no document', /not signed by the policy key/],
      [`${(await signed(good)).split('.').slice(0, 2).join('.')}.`, /not signed by the policy key/],
    ];
    for (const [order, message] of bad)
      await expect(verifyFreezeOrder(policy.publicKey, order)).rejects.toThrow(message);
  });

  it('fits into a request however much is frozen, accounts before agents, and says how much was left out', async () => {
    const long = (prefix: string, count: number) =>
      Array.from({ length: count }, (_, n) => `${prefix}_${String(n).padStart(58, '0')}`);
    await fc.assert(
      fc.asyncProperty(fc.nat(FREEZE_SUBJECTS_MAX * 2), fc.nat(FREEZE_SUBJECTS_MAX * 2), async (accounts, agents) => {
        const all = { ...state, accounts: long('acct', accounts), agents: long('agent', agents) };
        const fitted = fitFreezes(all);
        const named = fitted.state.accounts.length + fitted.state.agents.length;
        expect(named).toBe(Math.min(accounts + agents, FREEZE_SUBJECTS_MAX));
        expect(named + fitted.leftOut).toBe(accounts + agents);
        if (accounts <= FREEZE_SUBJECTS_MAX) expect(fitted.state.accounts).toEqual(all.accounts);
      }),
      { numRuns: 20 },
    );
    const most = fitFreezes({ ...state, agents: long('agent', FREEZE_SUBJECTS_MAX) }).state;
    const order = await signFreezeOrder(policy.privateKey, { state: { ...most, version: 2 ** 53 - 1 }, now });
    expect(order.length).toBeLessThan(FREEZE_ORDER_MAX);
    expect(JSON.stringify({ order }).length).toBeLessThan(BODY_BYTES_MAX);
  });
});
