import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import {
  type Hex,
  parseSignature,
  parseTransaction,
  recoverTransactionAddress,
  serializeTransaction,
  signatureToCompactSignature,
} from 'viem';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deriveEvmAddress } from '../../../shared/chain/evm/derive-address.ts';
import { isSignedByPayer } from '../../../shared/chain/evm/transfer-authorization.ts';
import type { AuthorizationPayload } from '../../../shared/domain/receipt.ts';
import { createSignerTransport, type SignerPeer, type SignerTransport } from '../../../signer/call.ts';
import { createSignerClient, type SignerClient } from '../../../signer/client.ts';
import { coordinateKeygen } from '../../../signer/coordinate-keygen.ts';
import { coordinateSign } from '../../../signer/coordinate-sign.ts';
import { SignerUnavailable } from '../../../signer/errors.ts';
import { parsePublicIdentity } from '../../../signer/identity.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import {
  authorizationRequestFor,
  nativeTransfer,
  signRequestFor,
  type TestKey,
  tokenTransfer,
} from '../../support/payments.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';

describe('three signers', () => {
  let signers: TestSigners;
  let client: SignerClient;
  let transport: SignerTransport;
  let key: TestKey;
  const peers = new Map<Party, SignerPeer>();

  beforeAll(async () => {
    signers = await startSigners();
    const options = { signers: signers.endpoints, identity: signers.coordinatorIdentity };
    client = createSignerClient({ ...options, signCallTimeoutMs: 20_000 });
    transport = createSignerTransport({ identity: signers.coordinatorIdentity, now: () => new Date() });
    for (const { party, url, publicKey } of signers.endpoints) {
      peers.set(party, { party, url, identity: await parsePublicIdentity(publicKey) });
    }
    key = await client.generateKey({ keyId: 'ckey_main' });
  });
  afterAll(async () => {
    client?.close();
    transport?.close();
    await signers?.stop();
  });

  /** A request that nobody has made before. */
  const fresh = () => signRequestFor(key, { policyKey: signers.policyKey });
  const signByPair = async (a: Party, b: Party, path = 'm/44/60/0/0/7') =>
    coordinateSign(transport, {
      pair: [peers.get(a)!, peers.get(b)!],
      request: await signRequestFor(key, { policyKey: signers.policyKey, path }),
      timeoutMs: 40_000,
      signal: AbortSignal.timeout(120_000),
    });

  it('make one key, and every pair signs with it, whoever begins', async () => {
    expect(key.publicKey).toMatch(/^0x04[0-9a-f]{128}$/);
    expect(key.chainCode).toMatch(/^0x[0-9a-f]{64}$/);
    for (const a of PARTIES) {
      for (const b of PARTIES) {
        if (a === b) continue;
        const { signature } = await signByPair(a, b); // refuses anything that does not recover to the wallet
        expect(signature).toMatch(/^0x[0-9a-f]{128}(1b|1c)$/);
      }
    }
  });

  it('agree with public BIP-32 derivation about the address of every child', async () => {
    // A signer refuses a wallet address that its own child share does not have, so a signature is the proof.
    const addresses = new Set<string>();
    for (const index of [0, 1, 19, 4711, 999_999_999]) {
      const path = `m/44/60/0/0/${index}`;
      addresses.add(deriveEvmAddress({ ...key, path }));
      await expect(signByPair(1, 3, path)).resolves.toHaveProperty('signature');
    }
    expect(addresses.size).toBe(5);
  });

  it.each([
    ['native', nativeTransfer()],
    ['token', tokenTransfer()],
  ])('sign a %s transfer that the chain would accept as the wallet’s', async (_, transaction) => {
    const request = await signRequestFor(key, { policyKey: signers.policyKey, transaction });
    const { signature } = await client.sign(request);
    const unsigned = {
      type: 'eip1559' as const,
      chainId: transaction.chainId,
      nonce: transaction.nonce,
      to: transaction.to,
      value: BigInt(transaction.valueWei),
      data: transaction.data,
      gas: BigInt(transaction.gas),
      maxFeePerGas: BigInt(transaction.maxFeePerGasWei),
      maxPriorityFeePerGas: BigInt(transaction.maxPriorityFeePerGasWei),
    };
    const serialized = serializeTransaction(unsigned, parseSignature(signature));
    expect(await recoverTransactionAddress({ serializedTransaction: serialized })).toBe(request.address);
    expect(parseTransaction(serialized).to?.toLowerCase()).toBe(transaction.to.toLowerCase());
    expect(signatureToCompactSignature(parseSignature(signature)).r).toHaveLength(66);
  });

  it('sign an authorisation as the token wants it, by every pair, for as much as a token can hold', async () => {
    const largest = String(2n ** 256n - 1n);
    const request = await authorizationRequestFor(key, {
      policyKey: signers.policyKey,
      payload: (valid) => ({ ...valid, value: largest }),
      receipt: (valid) => ({ ...valid, intent: { ...valid.intent, amount_minor: largest } }),
    });
    const { authorization } = request.payload as AuthorizationPayload;
    for (const a of PARTIES) {
      const pair = [peers.get(a)!, peers.get(a === 3 ? 1 : ((a + 1) as Party))!] as const;
      const run = { pair, request, timeoutMs: 40_000, signal: AbortSignal.timeout(120_000) };
      const { signature } = await coordinateSign(transport, run);
      // 65 bytes, v 27 or 28: what `transferWithAuthorization` takes.
      expect(signature).toMatch(/^0x[0-9a-f]{128}(1b|1c)$/);
      expect(await isSignedByPayer(authorization, signature)).toBe(true);
    }
  });

  it('take as many requests as come, a few at a time', async () => {
    const signed = await Promise.all(Array.from({ length: 24 }, async () => client.sign(await fresh())));
    expect(new Set(signed.map(({ digest }) => digest)).size).toBe(24);
  });

  it('F2: sign on with one of them killed, refuse new keys in plain words, and use the stored share after its restart', async () => {
    for (const party of PARTIES) {
      await signers.kill(party);
      await expect(client.sign(await fresh())).resolves.toHaveProperty('signature');
      const making = client.generateKey({ keyId: `ckey_without_${party}` });
      await expect(making).rejects.toThrow(SignerUnavailable);
      await expect(making).rejects.toThrow(new RegExp(`a new key needs all three signers: signer ${party}`));
      await signers.restart(party);
      await expect(signByPair(party, party === 1 ? 2 : 1)).resolves.toHaveProperty('signature');
    }
    await signers.kill(1);
    await signers.kill(2);
    await expect(client.sign(await fresh())).rejects.toThrow(SignerUnavailable);
    await Promise.all([signers.restart(1), signers.restart(2)]);
    await expect(client.sign(await fresh())).resolves.toHaveProperty('signature');
    expect((await client.health()).every(({ ok }) => ok)).toBe(true);
  });

  it('go round a signer that hangs', async () => {
    const options = { signers: signers.endpoints, identity: signers.coordinatorIdentity };
    const impatient = createSignerClient({ ...options, signCallTimeoutMs: 5_000 });
    signers.pause(2);
    try {
      for (let i = 0; i < 4; i++) await expect(impatient.sign(await fresh())).resolves.toHaveProperty('signature');
      const health = await impatient.health();
      expect(health.find(({ party }) => party === 2)).toMatchObject({
        ok: false,
        error: 'signer 2: no answer in time',
      });
    } finally {
      signers.resume(2);
      impatient.close();
    }
  });

  it('forget a run when one is killed in the middle of it, and sign the next', async () => {
    const { keyId, path, address, payload, receipt } = await signRequestFor(key, { policyKey: signers.policyKey });
    const session = randomBytes(32).toString('hex');
    const body = { keyId, path, address, payload, receipt, counterparty: 3 };
    const options = { session, timeoutMs: 40_000 };
    await transport.call(peers.get(1)!, { path: '/v1/sign/start', body, ...options });
    await signers.kill(1);
    await signers.restart(1);
    const late = transport.call(peers.get(1)!, { path: '/v1/sign/step', body: { message: 'x' }, ...options });
    await expect(late).rejects.toMatchObject({ code: 'unknown_session' });
    await expect(signByPair(1, 3)).resolves.toHaveProperty('signature');
  });

  it('never report a key ready of which a share is missing, and never use its id again', async () => {
    const run = {
      peers: [...peers.values()],
      keyId: 'ckey_torn',
      timeoutMs: 40_000,
      signal: AbortSignal.timeout(120_000),
    };
    const deaf: SignerTransport = {
      ...transport,
      async call(peer, p) {
        if (p.path === '/v1/keygen/step' && peer.party === 3 && (p.body as { round: number }).round === 4)
          await signers.kill(3);
        return transport.call(peer, p);
      },
    };
    await expect(coordinateKeygen(deaf, run)).rejects.toThrow(/signer 3/);
    await signers.restart(3);
    await expect(client.generateKey({ keyId: 'ckey_torn' })).rejects.toMatchObject({ reason: 'key_exists' });
    const request = await signRequestFor({ ...key, keyId: 'ckey_torn' }, { policyKey: signers.policyKey });
    await expect(client.sign(request)).rejects.toMatchObject({ name: 'SignRefused', reason: 'unknown_key' });
  });

  it('hold a key back until each has the word of the other two that they stored it', async () => {
    const refused: unknown[] = [];
    const forging: SignerTransport = {
      ...transport,
      async call(peer, p) {
        if (p.path !== '/v1/keygen/commit') return transport.call(peer, p);
        const body = p.body as { attestations: { party: number; attestation: string }[] };
        const own = body.attestations.find(({ party }) => party === peer.party)!;
        const forged = { ...body, attestations: PARTIES.map((party) => ({ ...own, party })) };
        return transport.call<never>(peer, { ...p, body: forged }).catch((error) => {
          refused.push(error.code);
          throw error;
        });
      },
    };
    const run = {
      peers: [...peers.values()],
      keyId: 'ckey_forged',
      timeoutMs: 40_000,
      signal: AbortSignal.timeout(120_000),
    };
    await expect(coordinateKeygen(forging, run)).rejects.toThrow(/has not attested/);
    expect(refused).toEqual(['bad_message', 'bad_message', 'bad_message']);
  });

  it('log what they sign, durably, and let nobody change the log', async () => {
    const request = await signRequestFor(key, {
      policyKey: signers.policyKey,
      transaction: nativeTransfer({ nonce: 4242 }),
      receipt: (valid) => ({ ...valid, transaction_id: 'txn_logged' }),
    });
    const { digest, signature } = await coordinateSign(transport, {
      pair: [peers.get(1)!, peers.get(2)!],
      request,
      timeoutMs: 40_000,
      signal: AbortSignal.timeout(120_000),
    });
    for (const party of [1, 2] as const) {
      await signers.kill(party); // without any chance to tidy up
      const db = new DatabaseSync(join(signers.dataDirOf(party), 'signer.sqlite'));
      const row = db.prepare('select * from signing_log order by seq desc limit 1').get()!;
      expect(row).toMatchObject({
        key_id: key.keyId,
        transaction_id: 'txn_logged',
        counterparty: 3 - party,
        receipt: request.receipt,
      });
      expect(JSON.parse(row.payload as string)).toEqual(request.payload);
      expect(hex(row.digest)).toBe(digest);
      if (party === 2) expect(hex(row.signature).slice(0, 130)).toBe(signature.slice(0, 130));
      expect(() => db.exec('delete from signing_log')).toThrow(/append-only/);
      expect(() => db.exec(`update signing_log set path = ''`)).toThrow(/append-only/);
      db.close();
      await signers.restart(party);
    }
  });

  it('find a flipped bit in the store, name it, ban nobody, and leave the work to the others', async () => {
    await signers.kill(2, 'SIGTERM');
    const file = join(signers.dataDirOf(2), 'signer.sqlite');
    const db = new DatabaseSync(file);
    const { sealed_share } = db.prepare('select sealed_share from shares where key_id = ?').get(key.keyId)!;
    const flipped = Uint8Array.from(sealed_share as Uint8Array);
    flipped[50_000]! ^= 1;
    const write = db.prepare('update shares set sealed_share = ? where key_id = ?');
    write.run(flipped, key.keyId);
    db.close();
    await signers.restart(2);
    await expect(signByPair(2, 3)).rejects.toMatchObject({ party: 2, code: 'share_damaged' });
    await expect(signByPair(2, 3)).rejects.toThrow(/the stored share of key ckey_main, epoch 1, does not open/);
    for (let i = 0; i < 3; i++) await expect(client.sign(await fresh())).resolves.toHaveProperty('signature');
    await signers.kill(2, 'SIGTERM');
    const again = new DatabaseSync(file);
    expect(again.prepare('select count(*) as n from bans').get()).toEqual({ n: 0 });
    again.prepare('update shares set sealed_share = ? where key_id = ?').run(sealed_share as Uint8Array, key.keyId);
    again.close();
    await signers.restart(2);
    await expect(signByPair(2, 3)).resolves.toHaveProperty('signature');
  });

  it('write no secret to their logs or answers', async () => {
    const health = await (await fetch(`${signers.endpoints[0]!.url}/healthz`)).text();
    expect(JSON.parse(health)).toEqual({ status: 'ok', party: 1, engine: 'wasm', keys: expect.any(Number) });
    const { receipt } = await signRequestFor(key, { policyKey: signers.policyKey });
    const written = `${signers.output()}${health}`;
    expect(written.length).toBeGreaterThan(1000);
    expect(written).not.toContain(receipt.split('.')[0]);
    const secrets = signers.secrets().flatMap((text) => [...text.matchAll(/"d":"([^"]+)"|^([A-Za-z0-9+/]{43}=)$/gm)]);
    expect(secrets).toHaveLength(3 + 3 * 3);
    for (const match of secrets) {
      const secret = (match[1] ?? match[2])!;
      expect(written).not.toContain(secret);
      expect(written).not.toContain(Buffer.from(secret, 'base64').toString('hex'));
    }
  });

  const hex = (bytes: unknown): Hex => `0x${Buffer.from(bytes as Uint8Array).toString('hex')}`;
});
