import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { encodeFunctionData, erc20Abi, parseAbi } from 'viem';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { deriveEvmAddress } from '../../../shared/chain/evm/derive-address.ts';
import type { EvmTransaction, PolicyReceipt } from '../../../shared/domain/receipt.ts';
import { createSignerTransport, type SignerPeer, type SignerTransport } from '../../../signer/call.ts';
import { createSignerClient } from '../../../signer/client.ts';
import { coordinateSign, type SignRequest } from '../../../signer/coordinate-sign.ts';
import { parsePublicIdentity } from '../../../signer/identity.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import {
  authorizationRequestFor,
  nativeTransfer,
  RECIPIENT,
  signRequestFor,
  type TestKey,
  TOKEN,
  tokenTransfer,
} from '../../support/payments.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';

// Keys and their refreshes are computed, here by three signers on one machine beside another test.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const OTHER = '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC';
/** Everybody who could be asked, in either order. */
const PAIRS = PARTIES.flatMap((a) => PARTIES.filter((b) => b !== a).map((b): [Party, Party] => [a, b]));

/** Whoever owns the worker speaks as the coordinator, and has whatever receipts the policy step has issued. */
describe('the owner of the worker', () => {
  let signers: TestSigners;
  let transport: SignerTransport;
  let key: TestKey;
  const peers = new Map<Party, SignerPeer>();

  beforeAll(async () => {
    signers = await startSigners();
    transport = createSignerTransport({ identity: signers.coordinatorIdentity, now: () => new Date() });
    for (const { party, url, publicKey } of signers.endpoints)
      peers.set(party, { party, url, identity: await parsePublicIdentity(publicKey) });
    const client = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity });
    key = await client.generateKey({ keyId: 'ckey_main' });
    client.close();
  });
  afterAll(async () => {
    transport?.close();
    await signers?.stop();
  });

  const signBy = ([a, b]: readonly [Party, Party], request: SignRequest, using = transport) =>
    coordinateSign(using, {
      ...{ pair: [peers.get(a)!, peers.get(b)!], request, timeoutMs: 15_000 },
      signal: AbortSignal.timeout(120_000),
    });
  async function nobodySigns(request: SignRequest, code: string): Promise<void> {
    for (const pair of PAIRS) await expect(signBy(pair, request)).rejects.toMatchObject({ code });
  }
  /** A good receipt of payment `id`, and a request of whatever is asked under it. */
  const ask = (p: { id?: string; transaction?: EvmTransaction; receipt?: (valid: PolicyReceipt) => PolicyReceipt }) =>
    signRequestFor(key, {
      policyKey: signers.policyKey,
      ...(p.transaction && { transaction: p.transaction }),
      receipt: (valid) => {
        const named = p.id ? { ...valid, transaction_id: p.id } : valid;
        return p.receipt ? p.receipt(named) : named;
      },
    });

  it('gets nothing signed but what a receipt allows', async () => {
    const good = await ask({});
    const bend = (changes: Partial<EvmTransaction>): SignRequest => ({
      ...good,
      payload: { kind: 'evm-transaction', transaction: nativeTransfer(changes) },
    });
    const call = encodeFunctionData({ abi: erc20Abi, functionName: 'approve', args: [OTHER, 1n] });
    const permit = parseAbi(['function sweep(address)']);
    const other = await ask({ receipt: (valid) => ({ ...valid, wallet: { ...valid.wallet, key_id: 'ckey_other' } }) });
    const wallet = deriveEvmAddress({ ...key, path: 'm/44/60/0/0/8' });
    await nobodySigns({ ...good, payload: { kind: 'hash', hash: `0x${'11'.repeat(32)}` } as never }, 'malformed');
    await nobodySigns(bend({ to: OTHER }), 'intent_mismatch');
    await nobodySigns(bend({ valueWei: '5000000000000000001' }), 'intent_mismatch');
    await nobodySigns(bend({ chainId: 1 }), 'intent_mismatch');
    await nobodySigns(bend({ maxFeePerGasWei: '9999999999999' }), 'intent_mismatch');
    await nobodySigns(bend({ to: TOKEN, valueWei: '0', data: call }), 'unsupported_call');
    const sweep = encodeFunctionData({ abi: permit, functionName: 'sweep', args: [OTHER] });
    await nobodySigns(bend({ to: TOKEN, valueWei: '0', data: sweep }), 'unsupported_call');
    await nobodySigns({ ...good, path: 'm/44/60/0/0/8', address: wallet }, 'intent_mismatch');
    await nobodySigns({ ...good, receipt: other.receipt }, 'intent_mismatch');
    const old = Math.floor(Date.now() / 1000) - 3600;
    await nobodySigns(await ask({ receipt: (v) => ({ ...v, iat: old, exp: old + 60 }) }), 'receipt_expired');
    const authorised = await authorizationRequestFor(key, {
      policyKey: signers.policyKey,
      payload: (valid) => ({ ...valid, nonce: `0x${randomBytes(32).toString('hex')}` }),
    });
    await nobodySigns(authorised, 'intent_mismatch');
    const typed = { ...authorised, payload: { kind: 'typed-data', domain: {}, message: {} } as never };
    await nobodySigns(typed, 'malformed');
    await expect(signBy([1, 2], good)).resolves.toBeDefined();
  });

  it.each(PAIRS)(
    'gets one receipt signed at one nonce, begun by %i with %i, whichever pair is asked then',
    async (...pair) => {
      const id = `txn_${randomBytes(6).toString('hex')}`;
      await signBy(pair, await ask({ id, transaction: nativeTransfer() }));
      for (const other of PAIRS)
        await expect(signBy(other, await ask({ id, transaction: nativeTransfer() }))).rejects.toMatchObject({
          code: 'slot_taken',
        });
    },
  );

  it.each(PAIRS)(
    'gets one payment signed at a nonce, begun by %i with %i, whichever pair is asked then',
    async (...pair) => {
      const transaction = nativeTransfer();
      await signBy(pair, await ask({ transaction }));
      const { nonce } = transaction;
      for (const other of PAIRS) {
        await expect(signBy(other, await ask({ transaction }))).rejects.toMatchObject({ code: 'slot_taken' });
        const token = await ask({ transaction: tokenTransfer({ nonce }) });
        await expect(signBy(other, token)).rejects.toMatchObject({ code: 'slot_taken' });
      }
    },
  );

  it('gets the same signature for the same request, from every pair', async () => {
    const request = await ask({});
    const { signature } = await signBy([1, 2], request);
    // Signer 1 is told after the answer: until then it knows of none, and signs anew.
    const again = await Promise.all([signBy([2, 3], request), signBy([3, 2], request), signBy([2, 1], request)]);
    expect(again.map((each) => each.signature)).toEqual([signature, signature, signature]);
    await expect.poll(async () => (await signBy([1, 3], request)).signature).toBe(signature);
  });

  it('gets no second payment where a signer was killed after it wrote, before it released', async () => {
    const transaction = nativeTransfer();
    const request = await ask({ transaction });
    const cutting: SignerTransport = {
      ...transport,
      async call<T>(peer: SignerPeer, p: Parameters<SignerTransport['call']>[1]) {
        const answer = await transport.call<T>(peer, p);
        if (p.path !== '/v1/sign/step') return answer;
        await signers.kill(1);
        throw new Error('the part never arrived');
      },
    };
    await expect(signBy([1, 2], request, cutting)).rejects.toThrow('never arrived');
    await signers.restart(1);
    await expect(signBy([1, 3], await ask({ transaction }))).rejects.toMatchObject({ party: 1, code: 'slot_taken' });
    await expect(signBy([3, 1], await ask({ transaction }))).rejects.toMatchObject({ party: 1, code: 'slot_taken' });
    await expect(signBy([1, 2], request)).resolves.toBeDefined();
  });

  it('property: never two payments at one slot, never two slots for one payment, over all pairs', async () => {
    const base = nativeTransfer().nonce + 1_000;
    const run = randomBytes(4).toString('hex');
    const attempt = fc.record({
      pair: fc.constantFrom(...PAIRS),
      payment: fc.nat(3),
      nonce: fc.nat(3),
      amount: fc.constantFrom('1', '2'),
      fee: fc.constantFrom('1000000000', '2000000000'),
      kind: fc.constantFrom('payment', 'payment', 'payment', 'noop'),
      replaces: fc.option(fc.nat(3), { freq: 3 }),
    });
    let round = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(attempt, { minLength: 6, maxLength: 14 }), async (attempts) => {
        round += 1;
        const nonceOf = (n: number) => base + round * 10 + n;
        const idOf = (n: number) => `txn_${run}_${round}_${n}`;
        const paid = new Map<number, string>();
        const slotsOf = new Map<string, { nonce: number; amount: string }>();
        for (const { pair, payment, nonce, amount, fee, kind, replaces } of attempts) {
          const id = idOf(payment);
          const wallet = deriveEvmAddress({ ...key, path: 'm/44/60/0/0/7' });
          const [to, value] = kind === 'noop' ? [wallet, '0'] : ([RECIPIENT, amount] as const);
          const named = replaces === null ? [] : [`eip155:31337/${wallet}/nonce/${nonceOf(replaces)}`.toLowerCase()];
          const request = await ask({
            transaction: nativeTransfer({ nonce: nonceOf(nonce), to, valueWei: value, maxFeePerGasWei: fee }),
            receipt: (valid) => ({
              ...valid,
              transaction_id: id,
              ...(named.length > 0 && { replaces: named }),
              intent: { ...valid.intent, to, amount_minor: value },
            }),
          });
          const isSigned = await signBy(pair, request).then(
            () => true,
            (error) => {
              expect(error).toMatchObject({ code: 'slot_taken' });
              return false;
            },
          );
          if (kind === 'noop') {
            expect(isSigned).toBe(true);
            continue;
          }
          if (!isSigned) continue;
          const what = `${id} ${amount}`;
          expect(paid.get(nonce) ?? what).toBe(what);
          paid.set(nonce, what);
          const known = slotsOf.get(id);
          // Another slot only by the word of the receipt, and never for another amount.
          if (known && known.nonce !== nonce) expect(replaces).toBe(known.nonce);
          expect(known?.amount ?? amount).toBe(amount);
          slotsOf.set(id, { nonce, amount });
        }
      }),
      { numRuns: 12 },
    );
  });
});
