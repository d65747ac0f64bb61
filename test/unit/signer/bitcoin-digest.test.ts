import { bech32, bech32m, hex } from '@scure/base';
import { OutScript, p2wpkh, SigHash, Transaction } from '@scure/btc-signer';
import fc from 'fast-check';
import { privateKeyToAccount } from 'viem/accounts';
import { describe, expect, it } from 'vitest';
import type { BitcoinTransaction } from '../../../shared/domain/receipt.ts';
import { walletAddress } from '../../../signer/address.ts';
import { bitcoinNetworkOf } from '../../../signer/chains.ts';
import { witnessDigest } from '../../../signer/digest/bip143.ts';
import { outputScript, publicKeyHashOf } from '../../../signer/digest/output-script.ts';
import { digestOf, payloadSchema } from '../../../signer/digest/payload.ts';
import {
  type BitcoinChain,
  bitcoinChains,
  bitcoinTransaction,
  libraryNetworks,
  payableScript,
} from '../../support/arbitrary-payloads.ts';

const [mainnet, testnet, regtest] = bitcoinChains as [BitcoinChain, BitcoinChain, BitcoinChain];
const privateKey = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .filter((key) => key[0] !== 0 && key[0] !== 0xff)
  .map((key) => `0x${hex.encode(key)}` as const);
const publicKeyOf = (key: `0x${string}`) => hex.decode(privateKeyToAccount(key).publicKey.slice(2));
const compressed = (publicKey: Uint8Array) =>
  Uint8Array.of(publicKey[64]! % 2 === 0 ? 2 : 3, ...publicKey.subarray(1, 33));

/** The same transaction in the coordinator's library. */
function libraryTransaction({ chain, inputs, outputs }: BitcoinTransaction): Transaction {
  const made = new Transaction({ version: 2, lockTime: 0 });
  for (const { txid, vout } of inputs) made.addInput({ txid, index: vout, sequence: 0xfffffffd });
  for (const { address, valueSat } of outputs) {
    made.addOutputAddress(address, BigInt(valueSat), libraryNetworks[chain as BitcoinChain]);
  }
  return made;
}

describe('the digest of an input', () => {
  it('is that of the example in BIP-143, "Native P2WPKH"', () => {
    const reversed = (text: string) => hex.encode(hex.decode(text).reverse());
    const digest = witnessDigest({
      version: 1,
      lockTime: 17,
      inputs: [
        {
          txid: reversed('fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f'),
          vout: 0,
          sequence: 0xffffffee,
        },
        {
          txid: reversed('ef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a'),
          vout: 1,
          sequence: 0xffffffff,
        },
      ],
      outputs: [
        { script: hex.decode('76a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac'), valueSat: 112340000n },
        { script: hex.decode('76a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa815988ac'), valueSat: 223450000n },
      ],
      input: { index: 1, valueSat: 600000000n, publicKeyHash: hex.decode('1d0f172a0ecb48aee1be1f2687d2963ae33f71a1') },
    });
    expect(hex.encode(digest)).toBe('c37af31116d1b27caf68aae9e3ac82f1477929014d5b917657d0eb49478cb670');
  });

  it('is what the coordinator’s library signs, of every input of any transaction to any kind of address', () => {
    fc.assert(
      fc.property(bitcoinTransaction, privateKey, (transaction, key) => {
        const publicKey = publicKeyOf(key);
        const chain = transaction.chain as BitcoinChain;
        const wallet = walletAddress({ publicKey, chain });
        const own = p2wpkh(compressed(publicKey), libraryNetworks[chain]);
        const scriptCode = OutScript.encode({ type: 'pkh', hash: own.hash! });
        const made = libraryTransaction(transaction);
        for (const [input, { valueSat }] of transaction.inputs.entries()) {
          const payload = payloadSchema.parse({ kind: 'bitcoin-input', input, transaction });
          const expected = made.preimageWitnessV0(input, scriptCode, SigHash.ALL, BigInt(valueSat));
          expect(digestOf(payload, wallet)).toBe(`0x${hex.encode(expected)}`);
        }
      }),
    );
  });

  it('is nobody’s whose wallet has no P2WPKH address of the chain', () => {
    const transaction: BitcoinTransaction = {
      chain: mainnet,
      inputs: [{ txid: '00'.repeat(32), vout: 0, valueSat: '1' }],
      outputs: [{ address: 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4', valueSat: '1' }],
      lockTime: 0,
    };
    const payload = { kind: 'bitcoin-input', input: 0, transaction } as const;
    for (const wallet of [
      'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
      'bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3',
      '1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH',
    ]) {
      expect(() => digestOf(payload, wallet)).toThrow(/has no P2WPKH address of chain bip122:0000/);
    }
  });
});

describe('an address', () => {
  it('of a wallet is that of the coordinator’s library, on every chain', () => {
    fc.assert(
      fc.property(privateKey, fc.constantFrom(...bitcoinChains), (key, chain) => {
        const publicKey = publicKeyOf(key);
        expect(walletAddress({ publicKey, chain })).toBe(p2wpkh(compressed(publicKey), libraryNetworks[chain]).address);
      }),
    );
  });

  it('of a wallet is the one in BIP-84', () => {
    const publicKey = hex.decode(
      '0430d54fd0dd420a6e5f8d3624f5f3482cae350f79d5f0753bf5beef9c2d91af3c04717159ce0828a7f686c2c7510b7aa7d4c685ebc2051642ccbebc7099e2f679',
    );
    expect(walletAddress({ publicKey, chain: mainnet })).toBe('bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu');
  });

  it('of a recipient has the script that the library gives it, of all five kinds and only on its network', () => {
    const paid = fc
      .constantFrom(...bitcoinChains)
      .chain((chain) => payableScript(chain).map((each) => ({ ...each, chain })));
    fc.assert(
      fc.property(paid, ({ chain, address, script }) => {
        expect(outputScript(address, bitcoinNetworkOf(chain)!)).toEqual(script);
        const isBase58 = !/^(bc|tb|bcrt)1/.test(address);
        for (const other of bitcoinChains.filter((each) => each !== chain)) {
          // Base58 addresses of the two test networks are the same ones.
          const isShared = isBase58 && chain !== mainnet && other !== mainnet;
          expect(outputScript(address, bitcoinNetworkOf(other)!)).toEqual(isShared ? script : undefined);
        }
      }),
    );
  });

  it('of a recipient never reads with one character changed, added or left out', () => {
    const characters = [...'023456789acdefghjklmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ1b'];
    fc.assert(
      fc.property(payableScript(mainnet), fc.nat(89), fc.constantFrom(...characters), ({ address }, place, other) => {
        const at = place % address.length;
        fc.pre(address[at] !== other);
        const network = bitcoinNetworkOf(mainnet)!;
        const [before, after] = [address.slice(0, at), address.slice(at + 1)];
        for (const bent of [before + other + after, before + after, before + other + address[at] + after]) {
          expect(outputScript(bent, network)).toBeUndefined();
        }
      }),
    );
  });

  it.each([
    ['Bech32 of version 1', 'bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7k7grplx'],
    ['Bech32m of version 0', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh'],
    ['version 1 of 2 bytes', 'bc1pfeessrawgf'],
    ['version 2', 'bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs'],
    ['version 16', 'bc1sw50qgdz25j'],
    ['version 0 of 16 bytes', 'bc1qr508d6qejxtdg4y5r3zarvaryvqyzf3du'],
    ['capitals', 'BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4'],
    ['mixed letters', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3T4'],
    ['nothing', ''],
    ['an address of Tron', 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t'],
    ['a private key', '5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ'],
    ['a script', '76a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac'],
  ])('of a recipient is not %s', (_, address) => {
    for (const chain of bitcoinChains) expect(outputScript(address, bitcoinNetworkOf(chain)!)).toBeUndefined();
  });

  it('of a recipient is none of a later version, however its checksum is made', () => {
    const program = bech32.toWords(new Uint8Array(20).fill(7));
    for (let version = 1; version <= 16; version++) {
      for (const code of [bech32, bech32m]) {
        const address = code.encode('bc', [version, ...program]);
        expect(outputScript(address, bitcoinNetworkOf(mainnet)!)).toBeUndefined();
      }
    }
    expect(outputScript(bech32.encode('bc', [0, ...program]), bitcoinNetworkOf(mainnet)!)).toBeDefined();
  });

  it('tells a public key’s hash only where it is P2WPKH', () => {
    const network = bitcoinNetworkOf(testnet)!;
    expect(hex.encode(publicKeyHashOf('tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx', network)!)).toBe(
      '751e76e8199196d454941c45d1b3a323f1433bd6',
    );
    for (const other of [
      'tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7',
      'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn',
      '2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc',
    ]) {
      expect(outputScript(other, network)).toBeDefined();
      expect(publicKeyHashOf(other, network)).toBeUndefined();
    }
  });
});

describe('the shape of a Bitcoin payload', () => {
  const coin = { txid: 'ab'.repeat(32), vout: 1, valueSat: '1000' };
  const transaction: BitcoinTransaction = {
    chain: regtest,
    inputs: [coin],
    outputs: [{ address: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080', valueSat: '900' }],
    lockTime: 0,
  };
  const [output] = transaction.outputs;
  const parse = (changes: object, input = 0) =>
    payloadSchema.safeParse({ kind: 'bitcoin-input', input, transaction: { ...transaction, ...changes } });
  const many = (count: number) => Array.from({ length: count }, (_, vout) => ({ ...coin, vout }));

  it('is read as it is documented, with up to 50 coins', () => {
    expect(parse({}).success).toBe(true);
    expect(parse({ inputs: many(50) }, 49).success).toBe(true);
  });

  it.each<[string, object, number?]>([
    ['of a chain that is none', { chain: 'bip122:00000000000000000000000000000000' }],
    ['of an EVM chain', { chain: 'eip155:1' }],
    ['of another network than its outputs', { chain: mainnet }],
    ['without inputs', { inputs: [] }],
    ['with 51 inputs', { inputs: many(51) }],
    ['that spends a coin twice', { inputs: [coin, { ...coin, valueSat: '7' }] }],
    ['of an input that it does not have', {}, 1],
    ['of a negative input', {}, -1],
    ['without outputs', { outputs: [] }],
    ['with three outputs', { outputs: [output, output, output] }],
    ['with an output of nothing', { outputs: [{ ...output, valueSat: '0' }] }],
    ['with an output of less', { outputs: [{ ...output, valueSat: '-1' }] }],
    ['with an output of more than there is', { outputs: [{ ...output, valueSat: '2100000000000001' }] }],
    ['with an output in hex', { outputs: [{ ...output, valueSat: '0x1' }] }],
    ['with an output to nobody', { outputs: [{ ...output, address: '' }] }],
    ['with a transaction id in capitals', { inputs: [{ ...coin, txid: 'AB'.repeat(32) }] }],
    ['with a short transaction id', { inputs: [{ ...coin, txid: 'ab'.repeat(31) }] }],
    ['with an output number that does not fit', { inputs: [{ ...coin, vout: 2 ** 32 }] }],
    ['that waits', { lockTime: 1 }],
    ['with a script of its own', { inputs: [{ ...coin, script: '00' }] }],
    ['with another sequence', { inputs: [{ ...coin, sequence: 0 }] }],
    ['of another version', { version: 1 }],
  ])('is refused %s', (_, changes, input) => {
    expect(parse(changes, input).success).toBe(false);
  });
});
