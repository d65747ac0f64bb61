import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { BitcoinTransaction } from '../../../shared/domain/receipt.ts';
import { createSignerTransport, type SignerPeer, type SignerTransport } from '../../../signer/call.ts';
import { createSignerClient, type SignerClient } from '../../../signer/client.ts';
import { coordinateMerge } from '../../../signer/coordinate-records.ts';
import { coordinateSign, type SignRequest } from '../../../signer/coordinate-sign.ts';
import { parsePublicIdentity } from '../../../signer/identity.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import {
  bitcoinPayment,
  type FamilyPayment,
  requestsFor,
  someCoin,
  tronPayment,
} from '../../support/family-payments.ts';
import { nativeTransfer, signRequestFor, type TestKey } from '../../support/payments.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';

// Keys and their refreshes are computed, here by three signers on one machine beside another test.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

describe('a signer that lost its records', () => {
  let signers: TestSigners;
  let client: SignerClient;
  let operator: SignerClient;
  let transport: SignerTransport;
  let key: TestKey;
  const peers = new Map<Party, SignerPeer>();

  beforeAll(async () => {
    signers = await startSigners();
    const { endpoints, coordinatorIdentity: identity, operatorIdentity } = signers;
    client = createSignerClient({ signers: endpoints, identity });
    operator = createSignerClient({ signers: endpoints, identity: operatorIdentity, role: 'operator' });
    transport = createSignerTransport({ identity, now: () => new Date() });
    for (const { party, url, publicKey } of endpoints)
      peers.set(party, { party, url, identity: await parsePublicIdentity(publicKey) });
    key = await client.generateKey({ keyId: 'ckey_main' });
  });
  afterAll(async () => {
    for (const each of [client, operator, transport]) each?.close();
    await signers?.stop();
  });

  const signBy = (a: Party, b: Party, request: SignRequest) =>
    coordinateSign(transport, {
      ...{ pair: [peers.get(a)!, peers.get(b)!], request, timeoutMs: 40_000 },
      signal: AbortSignal.timeout(120_000),
    });
  const pay = (nonce: number, transactionId: string, changes: object = {}) =>
    signRequestFor(key, {
      policyKey: signers.policyKey,
      transaction: nativeTransfer({ nonce, ...changes }),
      receipt: (valid) => ({ ...valid, transaction_id: transactionId }),
    });
  /** As after a repair, or a restore of an old backup. */
  async function lose(party: Party): Promise<void> {
    await signers.kill(party);
    const db = new DatabaseSync(join(signers.dataDirOf(party), 'signer.sqlite'));
    db.exec(
      'drop trigger if exists signing_log_no_delete; delete from signing_log; delete from slots; delete from payments',
    );
    db.exec('delete from signatures; update keys set has_records = 0');
    db.close();
    await signers.restart(party);
  }
  const hasRecords = async (party: Party) => {
    const status = (await operator.status()).find((each) => each.party === party)!;
    return 'keys' in status && status.keys[0]!.hasRecords;
  };
  const taken = { code: 'slot_taken' };

  it('signs nothing before it has them, and holds to them afterwards', async () => {
    const signed = await signBy(1, 3, await pay(1, 'txn_a'));
    const second = await pay(2, 'txn_b');
    await signBy(3, 2, second);
    await lose(3);
    expect(await hasRecords(3)).toBe(false);
    const fresh = await pay(3, 'txn_c');
    for (const other of [1, 2] as const) {
      await expect(signBy(3, other, fresh)).rejects.toMatchObject({ party: 3, code: 'records_missing' });
      await expect(signBy(other, 3, fresh)).rejects.toMatchObject({ party: 3, code: 'records_missing' });
    }
    // The others go on without it, and the client finds them.
    for (let i = 0; i < 3; i++) await expect(client.sign(await pay(4 + i, `txn_${i}`))).resolves.toBeDefined();

    await operator.mergeRecords({ keyId: key.keyId, party: 3 });
    expect(await hasRecords(3)).toBe(true);
    // What 1 knows of 3, 2 does not; and the other way round.
    await expect(signBy(3, 2, await pay(1, 'txn_x'))).rejects.toMatchObject({ party: 3, ...taken });
    await expect(signBy(2, 3, await pay(1, 'txn_a', { valueWei: '1' }))).rejects.toBeDefined();
    await expect(signBy(3, 1, await pay(7, 'txn_b'))).rejects.toMatchObject({ party: 3, ...taken });
    expect((await signBy(3, 2, await pay(1, 'txn_a'))).digest).toBe(signed.digest);
    await expect(signBy(3, 1, fresh)).resolves.toBeDefined();
    // Nothing is missing: the same again changes nothing.
    await operator.mergeRecords({ keyId: key.keyId, party: 3 });
    await expect(signBy(3, 2, await pay(8, 'txn_d'))).resolves.toBeDefined();
  });

  it('knows every coin with its value again, and what is signed on Tron until when', async () => {
    const ask = (payment: FamilyPayment) => requestsFor(payment, { policyKey: signers.policyKey });
    const paid = bitcoinPayment(key);
    const { transaction } = paid.payload as { transaction: BitcoinTransaction };
    const sent = tronPayment(key);
    const [first, second] = await ask(paid);
    await signBy(1, 3, first!);
    const [tron] = await ask(sent);
    const { digest } = await signBy(3, 2, tron!);
    await lose(3);
    await operator.mergeRecords({ keyId: key.keyId, party: 3 });
    const [coin, other] = transaction.inputs;
    for (const inputs of [
      [other!, someCoin('100000')],
      [coin!, { ...other!, valueSat: '1' }, someCoin('99999')],
    ]) {
      const [request] = await ask(bitcoinPayment(key, { inputs }));
      await expect(signBy(3, 2, request!)).rejects.toMatchObject({ party: 3, ...taken });
    }
    const [again] = await ask({ ...tronPayment(key), transactionId: sent.transactionId });
    await expect(signBy(3, 1, again!)).rejects.toMatchObject({ party: 3, ...taken });
    await expect(signBy(3, 2, second!)).resolves.toBeDefined();
    expect((await signBy(3, 1, tron!)).digest).toBe(digest);
  });

  it('begins anew after it was killed in between, and believes no pages of an earlier time', async () => {
    await lose(3);
    const [one, two, three] = PARTIES.map((party) => peers.get(party)!);
    const asOperator = createSignerTransport({
      identity: signers.operatorIdentity,
      role: 'operator',
      now: () => new Date(),
    });
    const asked = { keyId: key.keyId, party: 3, peers: [one!, two!, three!], timeoutMs: 40_000 } as const;
    const recorded: object[] = [];
    const dying: SignerTransport = {
      ...asOperator,
      async call<T>(peer: SignerPeer, p: Parameters<SignerTransport['call']>[1]) {
        if (p.path === '/v1/records/import' && recorded.push(p.body) === 7) await signers.kill(3);
        return asOperator.call<T>(peer, p);
      },
    };
    await expect(coordinateMerge(dying, asked)).rejects.toMatchObject({ party: 3, name: 'NoAnswer' });
    await signers.restart(3);
    expect(await hasRecords(3)).toBe(false);

    // Whoever relays gives pages of before: they were sealed for another merge.
    const replaying: SignerTransport = {
      ...asOperator,
      call<T>(peer: SignerPeer, p: Parameters<SignerTransport['call']>[1]) {
        return asOperator.call<T>(peer, p.path === '/v1/records/import' ? { ...p, body: recorded[0]! } : p);
      },
    };
    await expect(coordinateMerge(replaying, asked)).rejects.toMatchObject({ party: 3, code: 'bad_message' });
    // Or leaves pages out.
    const skipping: SignerTransport = {
      ...asOperator,
      async call<T>(peer: SignerPeer, p: Parameters<SignerTransport['call']>[1]) {
        const isFirst = p.path === '/v1/records/import' && recorded.length < 8;
        return isFirst && recorded.push({}) ? ({} as T) : asOperator.call<T>(peer, p);
      },
    };
    await expect(coordinateMerge(skipping, asked)).rejects.toMatchObject({ party: 3, code: 'bad_message' });
    expect(await hasRecords(3)).toBe(false);
    await coordinateMerge(asOperator, asked);
    expect(await hasRecords(3)).toBe(true);
    asOperator.close();
  });

  it('is told nothing by one that lacks records itself, and by no coordinator’s order', async () => {
    await lose(2);
    await lose(3);
    const merging = operator.mergeRecords({ keyId: key.keyId, party: 3 });
    await expect(merging).rejects.toThrow(/signer 2 signs nothing with key ckey_main before it has the records/);
    await expect(client.mergeRecords({ keyId: key.keyId, party: 3 })).rejects.toThrow(/for operator only/);
    expect([await hasRecords(2), await hasRecords(3)]).toEqual([false, false]);
  });
});
