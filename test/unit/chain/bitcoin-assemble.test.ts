import { createHash, createPublicKey, verify } from 'node:crypto';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { hex } from '@scure/base';
import { p2wpkh, TEST_NETWORK } from '@scure/btc-signer';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bitcoinFamily } from '../../../shared/chain/bitcoin/family.ts';
import { virtualSize } from '../../../shared/chain/bitcoin/size.ts';
import type { BitcoinTransaction } from '../../../shared/domain/receipt.ts';
import { digestOfBitcoin, preimageOfBitcoin, type ReadBitcoin, readBitcoin } from '../../support/read-bitcoin.ts';

const chain = 'bip122:0f9188f13cb7b2c71f2a335e3a4fc328';
const network = { ...TEST_NETWORK, bech32: 'bcrt' };
const privateKey = hex.decode('619c335025c7f4012e556c2a58b2506e30b8511b53ade95ea316fd8c3286feb9');
const publicKey = secp256k1.getPublicKey(privateKey);
const keyHash = createHash('ripemd160').update(createHash('sha256').update(publicKey).digest()).digest();
const from = p2wpkh(publicKey, network).address;
const payees = [
  'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn',
  '2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc',
  'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
  'bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry',
  'bcrt1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma6',
];

/** What the threshold signers answer: r | s | v. */
function signed(digest: Uint8Array, key = privateKey, { lowS = true } = {}): `0x${string}` {
  const recovered = secp256k1.sign(digest, key, { prehash: false, format: 'recovered', lowS });
  return `0x${hex.encode(recovered.subarray(1))}${(27 + recovered[0]!).toString(16)}`;
}

const coin = fc.record({
  txid: fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => hex.encode(bytes)),
  vout: fc.nat(500),
  valueSat: fc.bigInt(1000n, 2_100_000_000_000_000n).map(String),
});
const transactions = fc.record({
  chain: fc.constant(chain),
  inputs: fc.uniqueArray(coin, { minLength: 1, maxLength: 50, selector: ({ txid, vout }) => txid + vout }),
  outputs: fc.uniqueArray(
    fc.record({ address: fc.constantFrom(...payees, from), valueSat: fc.bigInt(294n, 1_000_000n).map(String) }),
    { minLength: 1, maxLength: 2 },
  ),
  lockTime: fc.constant(0),
});

/** The transaction without signatures, in the form that another's reader knows. */
function unsignedOf(transaction: BitcoinTransaction): ReadBitcoin {
  return {
    version: 2,
    inputs: transaction.inputs.map((input) => ({
      ...input,
      script: Buffer.alloc(0),
      sequence: 0xfffffffd,
      witness: [],
    })),
    outputs: transaction.outputs.map(({ address, valueSat }) => ({
      valueSat: BigInt(valueSat),
      script: Buffer.from(scripts[address]!, 'hex'),
    })),
    lockTime: 0,
    txid: '',
    weight: 0,
  };
}

const spentBy = ({ inputs }: BitcoinTransaction, input: number) => ({
  input,
  valueSat: BigInt(inputs[input]!.valueSat),
  keyHash,
});
const preimageOf = (transaction: BitcoinTransaction, input: number) =>
  preimageOfBitcoin(unsignedOf(transaction), spentBy(transaction, input));
const digestsOf = (transaction: BitcoinTransaction) =>
  transaction.inputs.map((_, input) => digestOfBitcoin(unsignedOf(transaction), spentBy(transaction, input)));

/** Written down by hand from the kinds' definitions. */
const scripts: Record<string, string> = {
  [payees[0]!]: '76a914243f1394f44554f4ce3fd68649c19adc483ce92488ac',
  [payees[1]!]: 'a9144e9f39ca4688ff102128ea4ccda34105324305b087',
  [payees[2]!]: '0014751e76e8199196d454941c45d1b3a323f1433bd6',
  [payees[3]!]: '00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262',
  [payees[4]!]: '512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798',
  [from]: `0014${keyHash.toString('hex')}`,
};

function assembled(transaction: BitcoinTransaction, signatures: `0x${string}`[]) {
  return bitcoinFamily.assemble({ payload: { kind: 'bitcoin-transaction', transaction }, signatures, from });
}

const sample: BitcoinTransaction = {
  chain,
  inputs: [
    { txid: '9f96ade4b41d5433f4eda31e1738ec2b36f6e7d1420d94a6af99801a88f7f7ff', vout: 0, valueSat: '625000000' },
    { txid: '8ac60eb9575db5b2d987e29f301b5b819ea83a5c6579d282d189cc04b8e151ef', vout: 1, valueSat: '600000000' },
  ],
  outputs: [
    { address: payees[0]!, valueSat: '112340000' },
    { address: from, valueSat: '223450000' },
  ],
  lockTime: 0,
};

describe("the test's own reading of Bitcoin", () => {
  // Source: BIP-143, "Native P2WPKH".
  const unsigned =
    '0100000002fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f0000000000eeffffffef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb206000000001976a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa815988ac11000000';
  const digest = 'c37af31116d1b27caf68aae9e3ac82f1477929014d5b917657d0eb49478cb670';
  const signature =
    '304402203609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a0220573a954c4518331561406f90300e8f3358f51928d43c212a8caed02de67eebee';

  it('agrees with the published digest, key hash and signature', () => {
    const read = readBitcoin(unsigned);
    expect(keyHash.toString('hex')).toBe('1d0f172a0ecb48aee1be1f2687d2963ae33f71a1');
    const found = digestOfBitcoin(read, { input: 1, valueSat: 600_000_000n, keyHash });
    expect(found.toString('hex')).toBe(digest);
    expect(secp256k1.verify(hex.decode(signature), found, publicKey, { prehash: false, format: 'der' })).toBe(true);
    expect(read.txid).toBe('3335ffae0df20c5407e8de12b49405c8e912371f00fe4132bfaf95ad49c40243');
  });
});

describe('an assembled Bitcoin transaction', () => {
  it('says what was to be signed, is signed for every input, and is no larger than it was counted', () => {
    fc.assert(
      fc.property(transactions, (transaction) => {
        const digests = digestsOf(transaction);
        const { raw, hash } = assembled(
          transaction,
          digests.map((digest) => signed(digest)),
        );
        const read = readBitcoin(raw);
        expect(read).toMatchObject({ version: 2, lockTime: 0, txid: hash });
        expect(read.inputs.map(({ txid, vout, sequence }) => ({ txid, vout, sequence }))).toEqual(
          transaction.inputs.map(({ txid, vout }) => ({ txid, vout, sequence: 0xfffffffd })),
        );
        expect(read.outputs.map(({ valueSat, script }) => [valueSat.toString(), script.toString('hex')])).toEqual(
          transaction.outputs.map(({ address, valueSat }) => [valueSat, scripts[address]]),
        );
        for (const [index, { script, witness }] of read.inputs.entries()) {
          expect(script).toHaveLength(0);
          expect(witness[1]).toEqual(Buffer.from(publicKey));
          expect(witness[0]!.at(-1)).toBe(1);
          const der = witness[0]!.subarray(0, -1);
          const options = { prehash: false, format: 'der', lowS: true } as const;
          expect(secp256k1.verify(der, digests[index]!, publicKey, options)).toBe(true);
        }
        const { inputs, outputs } = transaction;
        const counted = virtualSize({ inputs: inputs.length, outputs: outputs.map(({ address }) => address), chain });
        const vsize = Math.ceil(read.weight / 4);
        expect(vsize).toBeLessThanOrEqual(Number(counted));
        // A signature has one byte less every other time; three less are next to impossible.
        expect(Number(counted) - vsize).toBeLessThanOrEqual(Math.ceil((3 * inputs.length) / 4));
      }),
      { numRuns: 30 },
    );
  });

  it('is counted exactly where every signature is as long as it can be', () => {
    const count = (inputs: number, outputs: string[]) => Number(virtualSize({ inputs, outputs, chain }));
    // Sizes that wallets publish: 110 (one to one), 141 (one to two), 68 for each input more, 122 to P2TR.
    expect(count(1, [from])).toBe(110);
    expect(count(1, [from, from])).toBe(141);
    expect(count(2, [from, from])).toBe(209);
    expect(count(1, [payees[4]!])).toBe(122);
    expect(count(1, [payees[0]!])).toBe(113);
  });

  it('is verified by OpenSSL too, and has a low s where the signature came with a high one', () => {
    const digests = digestsOf(sample);
    const low = assembled(
      sample,
      digests.map((digest) => signed(digest)),
    );
    const high = assembled(
      sample,
      digests.map((digest) => flipped(signed(digest))),
    );
    expect(high).toEqual(low);
    const spki = Buffer.concat([
      Buffer.from('3036301006072a8648ce3d020106052b8104000a032200', 'hex'),
      Buffer.from(publicKey),
    ]);
    const key = createPublicKey({ key: spki, format: 'der', type: 'spki' });
    for (const [index, { witness }] of readBitcoin(low.raw).inputs.entries()) {
      const inner = createHash('sha256').update(preimageOf(sample, index)).digest();
      expect(verify('sha256', inner, key, witness[0]!.subarray(0, -1))).toBe(true);
    }
  });

  it('offers what it pays for each virtual byte', () => {
    const transaction = { ...sample, outputs: [{ address: from, valueSat: '1224990000' }] };
    const { raw, offer } = assembled(
      transaction,
      digestsOf(transaction).map((digest) => signed(digest)),
    );
    const vsize = Math.ceil(readBitcoin(raw).weight / 4);
    expect(offer).toEqual({
      max_fee_per_gas: null,
      max_priority_fee_per_gas: null,
      fee_rate: String(Math.floor((10_000 * 1000) / vsize) / 1000),
      expires_at: null,
    });
    expect(bitcoinFamily.offerOf(raw).fee_rate).toBeNull();
  });

  it('is a no-op when all comes back in one piece, and else a payment', () => {
    const purposeOf = (outputs: BitcoinTransaction['outputs']) => {
      const transaction = { ...sample, outputs };
      const { raw } = assembled(
        transaction,
        digestsOf(transaction).map((digest) => signed(digest)),
      );
      return bitcoinFamily.purposeOf(raw, { from, chain });
    };
    expect(purposeOf(sample.outputs)).toBe('payment');
    expect(purposeOf([sample.outputs[0]!])).toBe('payment');
    expect(purposeOf([sample.outputs[1]!])).toBe('noop');
  });

  it('is refused when a signature is of another key, input, value or transaction, or is missing', () => {
    const right = digestsOf(sample).map((digest) => signed(digest));
    const digestOf = (inputs: BitcoinTransaction['inputs']) => digestsOf({ ...sample, inputs });
    const [first, second] = sample.inputs as [(typeof sample.inputs)[0], (typeof sample.inputs)[0]];
    const other = hex.decode('11'.repeat(32));
    const wrong = [
      [right[1]!, right[0]!],
      [signed(digestsOf(sample)[0]!, other), right[1]!],
      [right[0]!, signed(digestOf([first, { ...second, valueSat: '600000001' }])[1]!)],
      [right[0]!, signed(digestOf([second, first])[0]!)],
    ];
    for (const signatures of wrong)
      expect(() => assembled(sample, signatures)).toThrow(/^The signature of input [01] is none of bcrt1q/);
    expect(() => assembled(sample, [right[0]!])).toThrow(/^2 inputs need as many signatures, and there are 1\.$/);
    expect(() => assembled(sample, [right[0]!, '0x00'])).toThrow(/^A signature has 65 bytes/);
  });
});

/** The same signature with the other s, which is as good to the curve. */
function flipped(signature: `0x${string}`): `0x${string}` {
  const s = secp256k1.Point.Fn.ORDER - BigInt(`0x${signature.slice(66, 130)}`);
  const v = signature.endsWith('1b') ? '1c' : '1b';
  return `${signature.slice(0, 66) as `0x${string}`}${s.toString(16).padStart(64, '0')}${v}`;
}
