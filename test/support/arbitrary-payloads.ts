import { hex } from '@scure/base';
import { Address, NETWORK, OutScript, TEST_NETWORK } from '@scure/btc-signer';
import fc from 'fast-check';
import { utils } from 'tronweb';
import type { BitcoinTransaction, TronTransaction } from '../../shared/domain/receipt.ts';

/** As the coordinator's library knows them. */
export const libraryNetworks = {
  'bip122:000000000019d6689c085ae165831e93': NETWORK,
  'bip122:000000000933ea01ad0ee984209779ba': TEST_NETWORK,
  'bip122:0f9188f13cb7b2c71f2a335e3a4fc328': { ...TEST_NETWORK, bech32: 'bcrt' },
};
export type BitcoinChain = keyof typeof libraryNetworks;
export const bitcoinChains = Object.keys(libraryNetworks) as BitcoinChain[];

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
const hexBytes = (length: number) => bytes(length).map((b) => hex.encode(b));

/** A script of one of the five kinds, and its address as the library writes it. */
export const payableScript = (chain: BitcoinChain) =>
  fc
    .oneof(
      bytes(20).map((hash) => ({ type: 'pkh' as const, hash })),
      bytes(20).map((hash) => ({ type: 'sh' as const, hash })),
      bytes(20).map((hash) => ({ type: 'wpkh' as const, hash })),
      bytes(32).map((hash) => ({ type: 'wsh' as const, hash })),
      // X coordinates of points: half of all numbers are none, so these are of known points.
      fc.constantFrom(...points).map((x) => ({ type: 'tr' as const, pubkey: hex.decode(x) })),
    )
    .map((payment) => ({
      script: OutScript.encode(payment),
      address: Address(libraryNetworks[chain]).encode(payment),
    }));
const points = [
  '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798',
  'c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5',
  'f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9',
];

const satoshis = fc.bigInt({ min: 1n, max: 2_100_000_000_000_000n }).map(String);

/** Any that a signer reads; whether its sums agree does not matter. */
export const bitcoinTransaction: fc.Arbitrary<BitcoinTransaction> = fc.constantFrom(...bitcoinChains).chain((chain) =>
  fc.record({
    chain: fc.constant(chain),
    inputs: fc.uniqueArray(
      fc.record({ txid: hexBytes(32), vout: fc.integer({ min: 0, max: 0xffffffff }), valueSat: satoshis }),
      { minLength: 1, maxLength: 8, selector: ({ txid, vout }) => `${txid}/${vout}` },
    ),
    outputs: fc.array(fc.record({ address: payableScript(chain).map(({ address }) => address), valueSat: satoshis }), {
      minLength: 1,
      maxLength: 2,
    }),
    lockTime: fc.constant(0),
  }),
);

/** As tronweb writes it. */
export const tronAddress = hexBytes(20).map((hash) => utils.address.fromHex(`41${hash}`));
const sun = (max: bigint) => fc.bigInt({ min: 1n, max }).map(String);

/** @param p.amountMax tronweb’s own encoder knows no more than 2^53 - 1 */
export const tronTransaction = (p: { amountMax: bigint }): fc.Arbitrary<TronTransaction> =>
  fc.record({
    chain: fc.constantFrom('tron:0x2b6653dc', 'tron:0xcd8690dc'),
    from: tronAddress,
    contract: fc.oneof(
      fc.record({ type: fc.constant('transfer' as const), to: tronAddress, amountSun: sun(p.amountMax) }),
      fc.record({
        type: fc.constant('trigger' as const),
        contract: tronAddress,
        data: fc.tuple(hexBytes(20), hexBytes(32)).map(([to, amount]) => `a9059cbb${'00'.repeat(12)}${to}${amount}`),
      }),
    ),
    refBlockBytes: hexBytes(2),
    refBlockHash: hexBytes(8),
    timestampMs: fc.integer({ min: 1, max: 2 ** 45 }),
    expirationMs: fc.integer({ min: 1, max: 2 ** 45 }),
    feeLimitSun: fc.oneof(fc.constant('0'), sun(p.amountMax)),
    bandwidthSun: sun(p.amountMax),
  });
