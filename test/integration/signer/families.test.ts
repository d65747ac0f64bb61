import { secp256k1 } from '@noble/curves/secp256k1.js';
import { hex } from '@scure/base';
import { OutScript, p2wpkh, SigHash, Transaction } from '@scure/btc-signer';
import { utils } from 'tronweb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { derivePublicKey } from '../../../shared/chain/derive-public-key.ts';
import { familyOf } from '../../../shared/chain/families.ts';
import type { BitcoinTransaction, PolicyReceipt, TronTransaction } from '../../../shared/domain/receipt.ts';
import { createSignerTransport, type SignerPeer, type SignerTransport } from '../../../signer/call.ts';
import { createSignerClient, type SignerClient } from '../../../signer/client.ts';
import { coordinateSign, type SignRequest } from '../../../signer/coordinate-sign.ts';
import { parsePublicIdentity } from '../../../signer/identity.ts';
import { othersThan, PARTIES, type Party } from '../../../signer/parties.ts';
import { libraryNetworks } from '../../support/arbitrary-payloads.ts';
import {
  BITCOIN,
  BITCOIN_RECIPIENT,
  bitcoinPayment,
  type FamilyPayment,
  REGTEST,
  requestsFor,
  someCoin,
  TRON_TOKEN,
  tronPayment,
  tronTokenPayment,
  walletOf,
} from '../../support/family-payments.ts';
import { nativeTransfer, signRequestFor, type TestKey } from '../../support/payments.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';

const TIMEOUT_MS = 10_000;
/** Whom a pair that has signed something else leaves: each of these has one of signers 1 and 2 in it. */
const otherPairs: readonly (readonly [Party, Party])[] = [
  [2, 3],
  [3, 1],
];

let signers: TestSigners;
let client: SignerClient;
let transport: SignerTransport;
let key: TestKey;
const peers = new Map<Party, SignerPeer>();

beforeAll(async () => {
  signers = await startSigners();
  client = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity });
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

const ask = (payment: FamilyPayment, receipt?: (valid: PolicyReceipt) => PolicyReceipt) =>
  requestsFor(payment, { policyKey: signers.policyKey, ...(receipt && { receipt }) });
const signBy = (a: Party, b: Party, request: SignRequest) =>
  coordinateSign(transport, {
    ...{ pair: [peers.get(a)!, peers.get(b)!], request, timeoutMs: TIMEOUT_MS },
    signal: AbortSignal.timeout(120_000),
  });
async function everySignerRefuses(request: SignRequest, code: string, message: RegExp): Promise<void> {
  for (const party of PARTIES) {
    const refused = signBy(party, othersThan(party)[0]!, request);
    await expect(refused).rejects.toMatchObject({ party, code, message: expect.stringMatching(message) });
  }
}
/** Signs everything of a payment, each by another pair. */
async function signAll(payment: FamilyPayment): Promise<`0x${string}`[]> {
  const requests = await ask(payment);
  const pairs = PARTIES.flatMap((a) => othersThan(a).map((b) => [a, b] as const));
  return Promise.all(
    requests.map(async (request, i) => (await signBy(...pairs[i % pairs.length]!, request)).signature),
  );
}

describe('three signers', () => {
  it.each([
    ['regtest', REGTEST, BITCOIN_RECIPIENT],
    ['the main network', BITCOIN, 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4'],
  ])('sign each input of a Bitcoin transaction on %s, as nodes would accept it', async (_, chain, to) => {
    const payment = bitcoinPayment(key, { chain, inputs: [someCoin(), someCoin(), someCoin()] });
    const { address } = payment.wallet;
    const { transaction } = payment.payload as { transaction: BitcoinTransaction };
    transaction.outputs = [
      { address: to, valueSat: '150000' },
      { address, valueSat: '149000' },
    ];
    payment.intent.to = to;
    const signatures = await signAll(payment);
    const { raw, hash } = familyOf(chain).assemble({ payload: payment.payload, signatures, from: address });
    const read = Transaction.fromRaw(hex.decode(raw));
    expect([read.id, read.version, read.lockTime, read.inputsLength]).toEqual([hash, 2, 0, 3]);
    const publicKey = derivePublicKey({ ...key, path: payment.wallet.path });
    const own = p2wpkh(publicKey, libraryNetworks[chain as keyof typeof libraryNetworks]);
    expect(own.address).toBe(address);
    const scriptCode = OutScript.encode({ type: 'pkh', hash: own.hash! });
    for (let i = 0; i < 3; i++) {
      const { sequence, finalScriptWitness } = read.getInput(i);
      const [der, witnessKey] = finalScriptWitness!;
      expect([sequence, der!.at(-1), hex.encode(witnessKey!)]).toEqual([
        0xfffffffd,
        SigHash.ALL,
        hex.encode(publicKey),
      ]);
      const digest = read.preimageWitnessV0(i, scriptCode, SigHash.ALL, 100_000n);
      const signature = secp256k1.Signature.fromBytes(der!.subarray(0, -1), 'der').toBytes('compact');
      expect(secp256k1.verify(signature, digest, publicKey, { prehash: false, lowS: true })).toBe(true);
    }
  });

  it.each([
    ['TRX', tronPayment],
    ['a token', tronTokenPayment],
  ])('sign a transfer of %s on Tron that the library finds to be the wallet’s', async (_, make) => {
    const payment = make(key);
    const { transaction } = payment.payload as { transaction: TronTransaction };
    const [signature] = await signAll(payment);
    const { hash } = familyOf(transaction.chain).assemble({
      ...{ payload: payment.payload, signatures: [signature!], from: payment.wallet.address },
    });
    expect(utils.crypto.ecRecover(hash, signature!).toLowerCase()).toBe(utils.address.toHex(payment.wallet.address));
    // The same again is the same signature, by another pair.
    const [request] = await ask(payment);
    expect((await signBy(2, 3, request!)).digest).toBe(`0x${hash}`);
  });

  it('sign each input of the same transaction again, the higher fee, and the way back to the wallet', async () => {
    const payment = bitcoinPayment(key);
    const { transaction } = payment.payload as { transaction: BitcoinTransaction };
    const first = await signAll(payment);
    expect(await signAll(payment)).toEqual(first);
    const { address } = payment.wallet;
    const raised: FamilyPayment = {
      ...payment,
      payload: {
        kind: 'bitcoin-transaction',
        transaction: { ...transaction, outputs: [transaction.outputs[0]!, { address, valueSat: '48000' }] },
      },
      intent: { ...payment.intent, max_fee_minor: '2000' },
    };
    await signAll(raised);
    const back: FamilyPayment = {
      ...payment,
      payload: {
        kind: 'bitcoin-transaction',
        transaction: { ...transaction, outputs: [{ address, valueSat: '197000' }] },
      },
      intent: { ...payment.intent, to: address, amount_minor: '0', max_fee_minor: '3000' },
    };
    const signatures = await signAll(back);
    const { raw } = familyOf(REGTEST).assemble({ payload: back.payload, signatures, from: address });
    expect(familyOf(REGTEST).purposeOf(raw, { from: address, chain: REGTEST })).toBe('noop');
  });

  it('sign on all families at once, by one key', async () => {
    const requests = [
      ...(await ask(bitcoinPayment(key))),
      ...(await ask(tronPayment(key))),
      ...(await ask(tronTokenPayment(key))),
      await signRequestFor(key, { policyKey: signers.policyKey, transaction: nativeTransfer() }),
    ];
    const signed = await Promise.all(requests.map((request) => client.sign(request)));
    expect(new Set(signed.map(({ digest }) => digest)).size).toBe(5);
  });
});

/** A payment whose receipt is for the unbent one. */
type Bend<T> = (valid: T, wallet: string) => Partial<T>;
async function bentBitcoin(bend: Bend<BitcoinTransaction>): Promise<SignRequest> {
  const payment = bitcoinPayment(key);
  const { transaction } = payment.payload as { transaction: BitcoinTransaction };
  const bent = { ...transaction, ...bend(transaction, payment.wallet.address) };
  const [request] = await ask({ ...payment, payload: { kind: 'bitcoin-transaction', transaction: bent } });
  return request!;
}
async function bentTron(make: typeof tronPayment, bend: Bend<TronTransaction>): Promise<SignRequest> {
  const payment = make(key);
  const { transaction } = payment.payload as { transaction: TronTransaction };
  const bent = { ...transaction, ...bend(transaction, payment.wallet.address) };
  const [request] = await ask({ ...payment, payload: { kind: 'tron-transaction', transaction: bent } });
  return request!;
}

describe('each signer by itself refuses, of Bitcoin', () => {
  const other = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080';
  it.each<[string, Bend<BitcoinTransaction>, string, RegExp]>([
    [
      'another recipient',
      ({ outputs }) => ({ outputs: [{ ...outputs[0]!, address: other }, outputs[1]!] }),
      'intent_mismatch',
      /^recipient is bcrt1qw508/,
    ],
    [
      'another amount',
      ({ outputs }) => ({ outputs: [{ ...outputs[0]!, valueSat: '150001' }, outputs[1]!] }),
      'intent_mismatch',
      /^amount is 150001, the receipt allows 150000/,
    ],
    [
      'change that is somebody else’s',
      ({ outputs }) => ({ outputs: [outputs[0]!, { ...outputs[1]!, address: other }] }),
      'unsupported_call',
      /^outputs must be one to the payee/,
    ],
    ['no payment at all', ({ outputs }) => ({ outputs: [outputs[1]!] }), 'intent_mismatch', /^recipient is bcrt1q/],
    [
      'change in two outputs, and no payment',
      ({ outputs }) => ({ outputs: [outputs[1]!, outputs[1]!] }),
      'unsupported_call',
      /^outputs must be/,
    ],
    [
      'one satoshi more for the miner than the receipt allows',
      ({ outputs }) => ({ outputs: [outputs[0]!, { ...outputs[1]!, valueSat: '48999' }] }),
      'intent_mismatch',
      /^fee of up to 1001 sat is above the receipt's ceiling 1000/,
    ],
    ['no change', ({ outputs }) => ({ outputs: [outputs[0]!] }), 'intent_mismatch', /^fee of up to 50000 sat is above/],
    [
      'more out than in',
      ({ outputs }) => ({ outputs: [outputs[0]!, { ...outputs[1]!, valueSat: '50001' }] }),
      'unsupported_call',
      /^outputs are of 1 sat more than the inputs/,
    ],
    [
      'a further coin, given to the miner',
      ({ inputs }) => ({ inputs: [...inputs, someCoin('7')] }),
      'intent_mismatch',
      /^fee of up to 1007 sat/,
    ],
    ['a coin twice', ({ inputs }) => ({ inputs: [inputs[0]!, inputs[0]!] }), 'malformed', /name a coin twice/],
    ['a time lock', () => ({ lockTime: 900_000 }), 'malformed', /lockTime/],
    ['another chain', () => ({ chain: BITCOIN }), 'malformed', /address that is none of this chain/],
  ])('%s, after the receipt was given', async (_, bend, code, message) => {
    await everySignerRefuses(await bentBitcoin(bend), code, message);
  });

  it('another chain of the same addresses’ kind, wallet and path', async () => {
    const [request] = await ask(bitcoinPayment(key));
    const testnet = 'bip122:000000000933ea01ad0ee984209779ba';
    const { transaction } = request!.payload as { transaction: BitcoinTransaction };
    const outputs = [{ address: 'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn', valueSat: '150000' }];
    const payload = { ...request!.payload, transaction: { ...transaction, chain: testnet, outputs } };
    await everySignerRefuses(
      { ...request!, payload } as SignRequest,
      'intent_mismatch',
      /^chain is bip122:000000000933/,
    );
    const path = walletOf(key, BITCOIN).path;
    await everySignerRefuses({ ...request!, path }, 'malformed', /has no wallet of chain .*; it must be m\/44\/1\//);
  });

  it('a payment to the wallet itself, which would be none', async () => {
    const payment = bitcoinPayment(key);
    const { address } = payment.wallet;
    const { transaction } = payment.payload as { transaction: BitcoinTransaction };
    payment.intent.to = address;
    transaction.outputs = [{ address, valueSat: '199000' }];
    const [request] = await ask(payment);
    await everySignerRefuses(request!, 'intent_mismatch', /^amount is 0, the receipt allows 150000/);
  });

  it('a wallet that its own share does not have, also when the receipt names it', async () => {
    const payment = bitcoinPayment(key);
    const [request] = await ask({ ...payment, wallet: { ...payment.wallet, address: other } }, (valid) => valid);
    await everySignerRefuses(request!, 'unsupported_call', /^outputs must be/);
    const { transaction } = payment.payload as { transaction: BitcoinTransaction };
    transaction.outputs[1]!.address = other;
    const [agreeing] = await ask({ ...payment, wallet: { ...payment.wallet, address: other } });
    await everySignerRefuses(agreeing!, 'intent_mismatch', /^wallet address is bcrt1qw508.* has bcrt1q/);
  });

  it('a coin of another payment, and the same payment by other coins, by whatever pair', async () => {
    const first = bitcoinPayment(key);
    const { inputs } = (first.payload as { transaction: BitcoinTransaction }).transaction;
    const [one, two] = await ask(first);
    await signBy(1, 2, one!);
    const taken = { code: 'slot_taken' };
    for (const shared of [
      [inputs[0]!, someCoin()],
      [someCoin(), inputs[1]!],
      [inputs[1]!, inputs[0]!],
    ]) {
      const [other] = await ask(bitcoinPayment(key, { inputs: shared }));
      await expect(signBy(2, 3, other!)).rejects.toMatchObject(taken);
      await expect(signBy(3, 1, other!)).rejects.toMatchObject(taken);
    }
    const { transactionId } = first;
    for (const elsewhere of [
      [someCoin(), someCoin()],
      [inputs[1]!, inputs[0]!],
    ]) {
      const [again] = await ask({ ...bitcoinPayment(key, { inputs: elsewhere }), transactionId });
      await expect(signBy(2, 3, again!)).rejects.toMatchObject(taken);
      await expect(signBy(3, 1, again!)).rejects.toMatchObject(taken);
    }
    await expect(signBy(3, 2, two!)).resolves.toHaveProperty('signature');
  });

  it('a fee that hides behind a lie about another coin’s value, each time another one, over any pairs', async () => {
    const payment = bitcoinPayment(key, { inputs: [someCoin('100000'), someCoin('100000000')] });
    const { transaction } = payment.payload as { transaction: BitcoinTransaction };
    const { inputs } = transaction;
    const told = (values: string[]) => ({
      ...payment,
      payload: {
        kind: 'bitcoin-transaction' as const,
        transaction: { ...transaction, inputs: inputs.map((coin, i) => ({ ...coin, valueSat: values[i]! })) },
      },
    });
    // The signature over the first input is good: its own value is true.
    const [first] = await ask(told(['100000', '100000']));
    await signBy(1, 2, first!);
    // Over the second one it must not be had: that value is true as well, and 0.999 BTC would be the fee.
    const lies = [told(['100000', '100000000']), told(['1', '100000000'])];
    for (const lie of lies) {
      const raised = { ...lie, intent: { ...lie.intent, max_fee_minor: '100000000' } };
      const [, second] = await ask(raised);
      for (const pair of [...otherPairs, [3, 2] as const, [1, 3] as const, [1, 2] as const]) {
        await expect(signBy(...pair, second!)).rejects.toMatchObject({
          code: 'slot_taken',
          message: expect.stringMatching(/was used as a coin of \d+ sat; it cannot be one of \d+ sat/),
        });
      }
    }
    // Nor with an output to the wallet itself, which pays nobody.
    const back = told(['100000', '100000000']);
    const { address } = payment.wallet;
    const noop: FamilyPayment = {
      ...back,
      payload: {
        kind: 'bitcoin-transaction',
        transaction: { ...back.payload.transaction, outputs: [{ address, valueSat: '100099000' }] },
      },
      intent: { ...payment.intent, to: address, amount_minor: '0' },
    };
    const [, second] = await ask(noop);
    await expect(signBy(2, 3, second!)).rejects.toMatchObject({ code: 'slot_taken' });
  });
});

describe('each signer by itself refuses, of Tron', () => {
  const other = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';
  it.each<[string, typeof tronPayment, Bend<TronTransaction>, string, RegExp]>([
    [
      'another recipient',
      tronPayment,
      () => ({ contract: { type: 'transfer', to: other, amountSun: '5000000' } }),
      'intent_mismatch',
      /^recipient is TR7N/,
    ],
    [
      'another amount',
      tronPayment,
      ({ contract }) => ({ contract: { ...contract, amountSun: '5000001' } as TronTransaction['contract'] }),
      'intent_mismatch',
      /^amount is 5000001/,
    ],
    ['another owner', tronPayment, () => ({ from: other }), 'intent_mismatch', /^payer is TR7N/],
    ['another chain', tronPayment, () => ({ chain: 'tron:0x2b6653dc' }), 'intent_mismatch', /^chain is tron:0x2b66/],
    [
      'an expiration in two hours',
      tronPayment,
      () => ({ expirationMs: Date.now() + 7_200_000 }),
      'malformed',
      /more than an hour ahead/,
    ],
    [
      'an expiration at the end of time',
      tronPayment,
      () => ({ expirationMs: Number.MAX_SAFE_INTEGER }),
      'malformed',
      /more than an hour ahead/,
    ],
    [
      'more for bandwidth than the receipt allows',
      tronPayment,
      () => ({ bandwidthSun: '1100001' }),
      'intent_mismatch',
      /^fee of up to 1100001 sun is above/,
    ],
    [
      'more for energy than the receipt allows',
      tronTokenPayment,
      () => ({ feeLimitSun: '30000001' }),
      'intent_mismatch',
      /^fee of up to 30345001 sun is above/,
    ],
    [
      'another token',
      tronTokenPayment,
      ({ contract }) => ({ contract: { ...contract, contract: other } as TronTransaction['contract'] }),
      'intent_mismatch',
      /^asset is TR7N/,
    ],
    [
      'a token in place of TRX',
      tronPayment,
      () => ({ contract: (tronTokenPayment(key).payload as { transaction: TronTransaction }).transaction.contract }),
      'intent_mismatch',
      /^asset is TXYZ/,
    ],
    [
      'a call of approve',
      tronTokenPayment,
      ({ contract }) => ({ contract: withData(contract, (data) => data.replace('a9059cbb', '095ea7b3')) }),
      'unsupported_call',
      /not exactly transfer/,
    ],
    [
      'a recipient with the prefix of addresses before it, which contracts ignore',
      tronTokenPayment,
      ({ contract }) => ({ contract: withData(contract, (data) => data.replace('00000000005cbd', '00000000415cbd')) }),
      'unsupported_call',
      /not exactly transfer/,
    ],
    [
      'trailing bytes',
      tronTokenPayment,
      ({ contract }) => ({ contract: withData(contract, (data) => `${data}00`) }),
      'unsupported_call',
      /not exactly transfer/,
    ],
    [
      'no call data',
      tronTokenPayment,
      ({ contract }) => ({ contract: withData(contract, () => '') }),
      'unsupported_call',
      /not exactly transfer/,
    ],
  ])('%s, after the receipt was given', async (_, make, bend, code, message) => {
    await everySignerRefuses(await bentTron(make, bend), code, message);
  });

  it.each([
    ['TRX', 'native', { type: 'transfer', to: 'T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb', amountSun: '5000000' } as const],
    [
      'a token',
      TRON_TOKEN,
      {
        type: 'trigger',
        contract: TRON_TOKEN,
        data: `a9059cbb${'00'.repeat(32)}${5_000_000n.toString(16).padStart(64, '0')}`,
      } as const,
    ],
  ])('%s for the zero address, also with a receipt for it', async (_, asset, contract) => {
    const payment = tronPayment(key, { contract });
    payment.intent = { ...payment.intent, asset, to: 'T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb' };
    const [request] = await ask(payment);
    await everySignerRefuses(request!, 'intent_mismatch', /zero address/);
  });

  it('a second transaction of a payment before the first one is over, also by a receipt that names it', async () => {
    const first = tronPayment(key, { expirationMs: Date.now() + 5_000 });
    const [request] = await ask(first);
    const { digest } = await signBy(1, 2, request!);
    const slot = `${first.intent.chain}/${first.wallet.address}/transaction/${digest.slice(2)}`;
    const second: FamilyPayment = { ...tronPayment(key), transactionId: first.transactionId };
    const [unnamed] = await ask(second);
    const [named] = await ask(second, (valid) => ({ ...valid, replaces: [slot] }));
    for (const pair of otherPairs) {
      await expect(signBy(...pair, unnamed!)).rejects.toMatchObject({ code: 'slot_taken' });
      await expect(signBy(...pair, named!)).rejects.toMatchObject({
        code: 'slot_taken',
        message: expect.stringMatching(/has a signature that is good until/),
      });
    }
    await expect
      .poll(() => signBy(3, 1, named!).catch((error) => error.code), { timeout: 15_000, interval: 250 })
      .toHaveProperty('digest');
    // From now on it is the second one that counts.
    const third = { ...tronPayment(key), transactionId: first.transactionId };
    const [late] = await ask(third, (valid) => ({ ...valid, replaces: [slot] }));
    await expect(signBy(1, 2, late!)).rejects.toMatchObject({ code: 'slot_taken' });
  });
});

function withData(
  contract: TronTransaction['contract'],
  change: (data: string) => string,
): TronTransaction['contract'] {
  if (contract.type !== 'trigger') throw new TypeError('no call');
  return { ...contract, data: change(contract.data) };
}

describe('no signer takes a payment of one family for one of another', () => {
  it.each([
    ['m/44/60/0/0/7', 'Bitcoin'],
    ['m/44/0/0/0/7', 'Bitcoin'],
    ['m/44/195/0/0/7', 'Bitcoin'],
    ['m/44/60/0/0/7', 'Tron'],
    ['m/44/1/0/0/7', 'Tron'],
    ['m/44/0/0/0/7', 'EVM'],
    ['m/44/195/0/0/7', 'EVM'],
    ['m/44/2/0/0/7', 'EVM'],
  ])('by path %s, for %s', async (path, family) => {
    const [request] =
      family === 'EVM'
        ? [await signRequestFor(key, { policyKey: signers.policyKey })]
        : await ask(family === 'Tron' ? tronPayment(key) : bitcoinPayment(key));
    await everySignerRefuses({ ...request!, path }, 'malformed', /m\/44\//);
  });

  it('by the receipt of another one', async () => {
    const [bitcoin] = await ask(bitcoinPayment(key));
    const [tron] = await ask(tronPayment(key));
    await everySignerRefuses({ ...tron!, receipt: bitcoin!.receipt }, 'intent_mismatch', /^wallet path is/);
    const evm = await signRequestFor(key, { policyKey: signers.policyKey });
    await everySignerRefuses({ ...bitcoin!, receipt: evm.receipt }, 'intent_mismatch', /^wallet path is/);
  });
});
