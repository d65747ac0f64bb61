import fc from 'fast-check';
import { utils } from 'tronweb';
import { privateKeyToAccount } from 'viem/accounts';
import { describe, expect, it } from 'vitest';
import type { TronTransaction } from '../../../shared/domain/receipt.ts';
import { walletAddress } from '../../../signer/address.ts';
import { digestOf, payloadSchema } from '../../../signer/digest/payload.ts';
import { encodeMessage } from '../../../signer/digest/protobuf.ts';
import { tronAddressBytes, writeTronAddress } from '../../../signer/digest/tron-address.ts';
import { judgeSignature } from '../../../signer/recorded-signature.ts';
import { tronAddress, tronTransaction } from '../../support/arbitrary-payloads.ts';

const chain = 'tron:0x2b6653dc';
const USDT = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';
const digest = (transaction: TronTransaction) =>
  digestOf(payloadSchema.parse({ kind: 'tron-transaction', transaction }), transaction.from);
const fromHex = (text: string) => utils.address.fromHex(text);

/** Of block 84939539 of the main net, and of an unsigned one that a node of Nile made. */
const published: { id: string; signature?: string; transaction: TronTransaction }[] = [
  {
    id: '72be8976354fa98c3e753aad8ee2753d0e7c9a5bc99c45a08a79c19160b5d0cd',
    signature:
      'ed2c219265757131bd18a8349a9a2d151c8b00bf897479197b0bcebd688fe1fb1657600e312b8a3383168d4f4b8abe20ecf55ab632f3636cdbd03204eb2f986c00',
    transaction: {
      chain,
      from: fromHex('418d01cf0c9bfd935042c62cdf3a5392cc0611e79f'),
      contract: {
        type: 'trigger',
        contract: USDT,
        data: 'a9059cbb0000000000000000000000413f46c7ade0f6b73b8fc1b4a143855394c405762e0000000000000000000000000000000000000000000000000000000002625a00',
      },
      ...{ refBlockBytes: '12ff', refBlockHash: 'b9534eaebfeb259e' },
      ...{ timestampMs: 1785489362909, expirationMs: 1785489420000, feeLimitSun: '30000000', bandwidthSun: '0' },
    },
  },
  {
    id: 'a1af302e7cc604b06f4b3daf0ce7df357beb7c56e416757924d8eeee543522e7',
    signature:
      'd52568cb72a5cfafa2131bcfd7b743eb6484c6611b340cd68fb952808abee24f15da9af03913d809e6482e4be85eb65fb3f9ae6486292a6200cd353c14df681c01',
    transaction: {
      chain,
      from: fromHex('41f9cc582480d3158adea4793c7d69baa1c86b09e0'),
      contract: {
        type: 'trigger',
        contract: USDT,
        data: 'a9059cbb0000000000000000000000411d28f0451d3fc1c8e59402c821a63d7f362e696f0000000000000000000000000000000000000000000000000000000005f5e100',
      },
      ...{ refBlockBytes: '12fb', refBlockHash: 'c024c8dc0c8b711d' },
      ...{ timestampMs: 1785489346303, expirationMs: 1785490246303, feeLimitSun: '100000000', bandwidthSun: '0' },
    },
  },
  {
    id: 'ae80c7aa55e19c2da5e712d4be50e4c9422dd6bfc99039cc42d5deb76938c0e7',
    transaction: {
      chain: 'tron:0xcd8690dc',
      from: fromHex('41eca9bc828a3005b9a3b909f2cc5c2a54794de05f'),
      contract: { type: 'transfer', to: fromHex('41495511a493d8c362be4267224e6d81013a6862ee'), amountSun: '1000' },
      ...{ refBlockBytes: '8acb', refBlockHash: '7c571ea3e7e9dbf3' },
      ...{ timestampMs: 1773182865805, expirationMs: 1773182925000, feeLimitSun: '0', bandwidthSun: '0' },
    },
  },
];

describe('the digest of a Tron transaction', () => {
  it.each(published)('is the id $id under which it was published, which its owner signed', async (each) => {
    expect(digest(each.transaction)).toBe(`0x${each.id}`);
    if (!each.signature) return;
    const { from: address } = each.transaction;
    const signed = { signature: `0x${each.signature}`, digest: `0x${each.id}`, chain } as const;
    expect(await judgeSignature({ ...signed, address })).toHaveProperty('signature');
    expect(await judgeSignature({ ...signed, address: USDT })).toMatchObject({
      fault: `recovers to ${address}, expected ${USDT}`,
    });
  });

  it('is what tronweb makes of it, whatever is paid to whom', () => {
    fc.assert(
      fc.property(tronTransaction({ amountMax: 2n ** 53n - 1n }), (transaction) => {
        expect(digest(transaction)).toBe(`0x${libraryId(transaction)}`);
      }),
    );
  });

  it('has every digit of numbers that JavaScript would round', () => {
    expect(Buffer.from(encodeMessage([[3, 9223372036854775807n]])).toString('hex')).toBe('18ffffffffffffffff7f');
    const amounts = ['9007199254740992', '9007199254740993', '9223372036854775807'];
    const made = amounts.map((amountSun) => {
      const { transaction } = published[2]!;
      return digest({ ...transaction, contract: { type: 'transfer', to: USDT, amountSun } });
    });
    expect(new Set(made).size).toBe(3);
  });

  it('differs with every member that is in the bytes, and with no other', () => {
    const all = tronTransaction({ amountMax: 2n ** 60n });
    const members = ['from', 'contract', 'refBlockBytes', 'refBlockHash', 'timestampMs', 'expirationMs', 'feeLimitSun'];
    fc.assert(
      fc.property(all, all, fc.constantFrom(...members), (one, other, member) => {
        const key = member as keyof TronTransaction;
        fc.pre(JSON.stringify(one[key]) !== JSON.stringify(other[key]));
        expect(digest({ ...one, [key]: other[key] })).not.toBe(digest(one));
        expect(digest({ ...one, bandwidthSun: other.bandwidthSun })).toBe(digest(one));
      }),
    );
  });
});

describe('an address of Tron', () => {
  it('of a wallet is that of tronweb', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 31, maxLength: 31 }), (bytes) => {
        const privateKey = `01${Buffer.from(bytes).toString('hex')}`;
        const publicKey = Buffer.from(privateKeyToAccount(`0x${privateKey}`).publicKey.slice(2), 'hex');
        expect(walletAddress({ publicKey, chain })).toBe(utils.address.fromPrivateKey(privateKey));
      }),
    );
  });

  it('is read as it is written, and never with one character changed', () => {
    const characters = [...'123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0OIl'];
    fc.assert(
      fc.property(tronAddress, fc.nat(33), fc.constantFrom(...characters), (address, at, other) => {
        const bytes = tronAddressBytes(address)!;
        expect(writeTronAddress(bytes.subarray(1))).toBe(address);
        fc.pre(address[at] !== other);
        expect(tronAddressBytes(address.slice(0, at) + other + address.slice(at + 1))).toBeUndefined();
      }),
    );
  });

  it.each(['', 'T', `0x${'ab'.repeat(20)}`, `41${'ab'.repeat(20)}`, '1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH'])(
    'is not "%s"',
    (text) => expect(tronAddressBytes(text)).toBeUndefined(),
  );
});

describe('the shape of a Tron payload', () => {
  const { transaction } = published[2]!;
  const trigger = published[0]!.transaction.contract;
  const parse = (changes: object) =>
    payloadSchema.safeParse({ kind: 'tron-transaction', transaction: { ...transaction, ...changes } }).success;

  it('is read as it is documented', () => {
    expect([parse({}), parse({ contract: trigger })]).toEqual([true, true]);
  });

  it.each<[string, object]>([
    ['of a chain that is none', { chain: 'tron:0x94a9059e' }],
    ['of an owner without an address', { from: '41eca9bc828a3005b9a3b909f2cc5c2a54794de05f' }],
    ['with another kind of contract', { contract: { ...transaction.contract, type: 'freeze' } }],
    ['with a call value', { contract: { ...trigger, callValueSun: '1' } }],
    ['with call data in capitals', { contract: { ...trigger, data: 'A9059CBB' } }],
    ['with half a byte', { contract: { ...trigger, data: 'a9059cb' } }],
    ['with endless call data', { contract: { ...trigger, data: '00'.repeat(1025) } }],
    ['with a negative amount', { contract: { ...transaction.contract, amountSun: '-1' } }],
    ['with an amount beyond 64 bits', { contract: { ...transaction.contract, amountSun: `${2n ** 63n}` } }],
    ['with a memo', { data: '00' }],
    ['with a permission', { permissionId: 2 }],
    ['with a long reference', { refBlockBytes: '8acb00' }],
    ['with a time before 1970', { expirationMs: -1 }],
    ['with a fraction of a millisecond', { expirationMs: 1.5 }],
    ['with a number for sun', { feeLimitSun: 1 }],
  ])('is refused %s', (_, changes) => {
    expect(parse(changes)).toBe(false);
  });
});

/** Its id by tronweb's own protobuf classes. */
function libraryId({ from, contract, ...raw }: TronTransaction): string {
  const { toHex } = utils.address;
  const isTransfer = contract.type === 'transfer';
  const value = isTransfer
    ? { owner_address: toHex(from), to_address: toHex(contract.to), amount: Number(contract.amountSun) }
    : { owner_address: toHex(from), contract_address: toHex(contract.contract), data: contract.data };
  const type = isTransfer ? 'TransferContract' : 'TriggerSmartContract';
  const message = utils.transaction.txJsonToPb({
    raw_data: {
      contract: [{ parameter: { value, type_url: `type.googleapis.com/protocol.${type}` }, type }],
      ref_block_bytes: raw.refBlockBytes,
      ref_block_hash: raw.refBlockHash,
      expiration: raw.expirationMs,
      timestamp: raw.timestampMs,
      fee_limit: Number(raw.feeLimitSun),
    },
  });
  return utils.transaction.txPbToTxID(message).replace(/^0x/, '');
}
