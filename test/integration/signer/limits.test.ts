import { type CryptoKey, exportJWK, generateKeyPair } from 'jose';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { deriveEvmAddress } from '../../../shared/chain/evm/derive-address.ts';
import { createSignerTransport, type SignerPeer, type SignerTransport } from '../../../signer/call.ts';
import { createSignerClient, type SignerClient } from '../../../signer/client.ts';
import { coordinateKeygen } from '../../../signer/coordinate-keygen.ts';
import { coordinateSign } from '../../../signer/coordinate-sign.ts';
import { parsePublicIdentity } from '../../../signer/identity.ts';
import { type AssetLimit, signLimits } from '../../../signer/limits-document.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import { nativeTransfer, signRequestFor, type TestKey } from '../../support/payments.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';

// Keys and their refreshes are computed, here by three signers on one machine beside another test.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const native = 'eip155:31337/native';
const fee = 21_000n;

let signers: TestSigners;
let client: SignerClient;
let operator: SignerClient;
let transport: SignerTransport;
let key: TestKey;
let owner: { privateKey: CryptoKey; publicKey: string };
const peers = new Map<Party, SignerPeer>();

beforeAll(async () => {
  const pair = await generateKeyPair('EdDSA', { extractable: true });
  owner = { privateKey: pair.privateKey, publicKey: (await exportJWK(pair.publicKey)).x! };
  signers = await startSigners();
  client = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity });
  operator = createSignerClient({ signers: signers.endpoints, identity: signers.operatorIdentity, role: 'operator' });
  transport = createSignerTransport({ identity: signers.coordinatorIdentity, now: () => new Date() });
  for (const { party, url, publicKey } of signers.endpoints) {
    peers.set(party, { party, url, identity: await parsePublicIdentity(publicKey) });
  }
  key = await client.generateKey({ keyId: 'ckey_main', ownerKey: owner.publicKey });
});
afterAll(async () => {
  client?.close();
  operator?.close();
  transport?.close();
  await signers?.stop();
});

let version = 0;
async function document(path: string, limits: AssetLimit[] | null, by = owner.privateKey): Promise<string> {
  version += 1;
  const wallet = deriveEvmAddress({ ...key, path }).toLowerCase();
  return signLimits(by, { key_id: key.keyId, wallet, version, limits });
}
const dayOf = (amount: bigint): AssetLimit[] => [{ asset: native, payment_minor: null, day_minor: `${amount}` }];
const set = (by: SignerClient, signed: string) => by.askEach({ path: '/v1/limits/set', body: { document: signed } });

/** A payment that costs so much with its fee. */
const request = (path: string, p: { cost: bigint; nonce: number }) =>
  signRequestFor(key, {
    policyKey: signers.policyKey,
    path,
    transaction: nativeTransfer({
      valueWei: `${p.cost - fee}`,
      nonce: p.nonce,
      gas: `${fee}`,
      maxFeePerGasWei: '1',
      maxPriorityFeePerGasWei: '1',
    }),
    receipt: (valid) => ({
      ...valid,
      transaction_id: `txn_${path}_${p.nonce}`,
      intent: { ...valid.intent, amount_minor: `${p.cost - fee}` },
    }),
  });
const signByPair = async (pair: readonly [Party, Party], path: string, p: { cost: bigint; nonce: number }) =>
  coordinateSign(transport, {
    pair: [peers.get(pair[0])!, peers.get(pair[1])!],
    request: await request(path, p),
    timeoutMs: 20_000,
    signal: AbortSignal.timeout(120_000),
  });

describe('limits of the account’s owner, in three signer processes', () => {
  it('are of nobody unless all three were told of the same owner when they made the key', async () => {
    const told: SignerTransport = {
      ...transport,
      call(peer, p) {
        const isStart = p.path === '/v1/keygen/start' && peer.party === 2;
        return transport.call(peer, isStart ? { ...p, body: { ...p.body, ownerKey: 'o'.repeat(43) } } : p);
      },
    };
    const run = { peers: [...peers.values()], keyId: 'ckey_two_owners', ownerKey: owner.publicKey };
    const limits = { timeoutMs: 60_000, signal: AbortSignal.timeout(100_000) };
    await expect(coordinateKeygen(told, { ...run, ...limits })).rejects.toThrow(/has not attested/);
    const [first] = await client.status();
    expect(first).toMatchObject({ keys: [{ keyId: 'ckey_main', ownerKey: owner.publicKey }] });
  });

  it('follow his word alone: not that of the coordinator, nor of the operator, who may only bring it', async () => {
    const path = 'm/44/60/0/0/1';
    const { privateKey: stranger } = await generateKeyPair('EdDSA');
    for (const who of [client, operator]) {
      for (const answer of await set(who, await document(path, null, stranger))) {
        expect(answer).toMatchObject({ error: expect.stringContaining('not signed by the owner’s key') });
      }
    }
    const naming = { keyId: key.keyId, ownerKey: 'o'.repeat(43) };
    for (const who of [client, operator]) {
      for (const answer of await who.askEach({ path: '/v1/owner-key/register', body: naming })) {
        expect(answer).toHaveProperty('error');
      }
    }
    const good = await document(path, dayOf(100_000n));
    expect(await set(client, good)).toEqual(PARTIES.map((party) => ({ party, version })));
    await expect(signByPair([1, 2], path, { cost: 100_001n, nonce: 0 })).rejects.toMatchObject({
      code: 'limit_exceeded',
    });
    const off = await document(path, null);
    await set(operator, off);
    await signByPair([1, 2], path, { cost: 100_001n, nonce: 0 });
    // What counted once does not count again.
    for (const answer of await set(client, good)) {
      expect(answer).toMatchObject({ error: expect.stringMatching(/version \d+ is not above \d+/) });
    }
  });

  it('refuse in words that the owner understands, and name the payment to nobody', async () => {
    const path = 'm/44/60/0/0/2';
    await set(client, await document(path, dayOf(100_000n)));
    const asked = await request(path, { cost: 100_001n, nonce: 0 });
    const refused = await client.sign(asked).catch((error) => error);
    expect(refused).toMatchObject({ name: 'SignRefused', reason: 'limit_exceeded' });
    expect(refused.message).toContain(`wallet ${asked.address.toLowerCase()} may pay 100000 minor units of ${native}`);
    expect(refused.message).not.toContain('txn_');
  });

  it('are not passed by signatures at once over all pairs, and are used up by those that ask again', async () => {
    const path = 'm/44/60/0/0/3';
    await set(client, await document(path, dayOf(500_000n)));
    const pairs = PARTIES.flatMap((a) => PARTIES.filter((b) => b !== a).map((b) => [a, b] as const));
    const waves = Array.from({ length: 12 }, (_, nonce) =>
      signByPair(pairs[nonce % pairs.length]!, path, { cost: 100_000n, nonce }).then(
        () => 'signed',
        (error) => error.code as string,
      ),
    );
    const outcomes = await Promise.all(waves);
    const signed = outcomes.filter((outcome) => outcome === 'signed').length;
    expect(signed).toBeLessThanOrEqual(5);
    expect(outcomes.every((outcome) => ['signed', 'busy', 'limit_exceeded'].includes(outcome))).toBe(true);
    for (let nonce = 20; nonce < 25 - signed; nonce++) await signByPair([3, 1], path, { cost: 100_000n, nonce });
    for (const [index, pair] of pairs.entries()) {
      const one = signByPair(pair, path, { cost: fee + 1n, nonce: 40 + index });
      await expect(one).rejects.toMatchObject({ code: 'limit_exceeded' });
    }
  });

  it('are kept over a kill, with what was signed away', async () => {
    const path = 'm/44/60/0/0/4';
    await set(client, await document(path, dayOf(100_000n)));
    await signByPair([1, 2], path, { cost: 60_000n, nonce: 0 });
    for (const party of PARTIES) {
      await signers.kill(party);
      await signers.restart(party);
    }
    const again = signByPair([3, 2], path, { cost: 40_001n, nonce: 1 });
    await expect(again).rejects.toMatchObject({
      code: 'limit_exceeded',
      message: expect.stringContaining('60000 were'),
    });
    await signByPair([3, 2], path, { cost: 40_000n, nonce: 1 });
    // The same once more is the same signature, and costs nothing.
    await signByPair([3, 2], path, { cost: 40_000n, nonce: 1 });
  });
});
