import { bytesToHex, type Hex } from 'viem';
import { z } from 'zod';
import type { BitcoinInputPayload, BitcoinTransaction } from '../../shared/domain/receipt.ts';
import { bitcoinNetworkOf } from '../chains.ts';
import { Refusal } from '../refusal.ts';
import { witnessDigest } from './bip143.ts';
import { outputScript, publicKeyHashOf } from './output-script.ts';

const INPUTS_MAX = 50;
/** The payee, and the wallet's change. */
const OUTPUTS_MAX = 2;
const ADDRESS_LENGTH_MAX = 90;
/** 21 million bitcoin: there are no more. */
const SATOSHIS_MAX = 2_100_000_000_000_000n;
const VERSION = 2;
/** It may be replaced (BIP-125), and does not wait for a time. */
const SEQUENCE = 0xfffffffd;

const satoshis = z
  .string()
  .regex(/^[1-9][0-9]{0,15}$/, 'must be a decimal string above 0, without sign or leading zeros')
  .refine((s) => BigInt(s) <= SATOSHIS_MAX, 'is more than there are');

/** The only shape of a Bitcoin transaction that a signer reads; everything else in its bytes is fixed. */
const bitcoinTransactionSchema = z
  .strictObject({
    chain: z.string().max(128),
    inputs: z
      .array(
        z.strictObject({
          txid: z.string().regex(/^[0-9a-f]{64}$/, 'must be 32 bytes in lower-case hex'),
          vout: z.int().min(0).max(0xffffffff),
          valueSat: satoshis,
        }),
      )
      .min(1)
      .max(INPUTS_MAX),
    outputs: z
      .array(z.strictObject({ address: z.string().max(ADDRESS_LENGTH_MAX), valueSat: satoshis }))
      .min(1)
      .max(OUTPUTS_MAX),
    lockTime: z.literal(0),
  })
  .refine(({ chain }) => bitcoinNetworkOf(chain), {
    message: 'is no Bitcoin chain that is signed for',
    path: ['chain'],
  })
  .refine(({ chain, outputs }) => outputs.every(({ address }) => scriptOf(address, chain)), {
    message: 'pay an address that is none of this chain, or not in its one written form',
    path: ['outputs'],
  })
  .refine(({ inputs }) => new Set(inputs.map(({ txid, vout }) => `${txid}/${vout}`)).size === inputs.length, {
    message: 'name a coin twice',
    path: ['inputs'],
  }) satisfies z.ZodType<BitcoinTransaction>;

export const bitcoinInputSchema = z
  .strictObject({
    kind: z.literal('bitcoin-input'),
    input: z.int().nonnegative(),
    transaction: bitcoinTransactionSchema,
  })
  .refine(({ input, transaction }) => input < transaction.inputs.length, {
    message: 'is none of the transaction’s inputs',
    path: ['input'],
  }) satisfies z.ZodType<BitcoinInputPayload>;

/**
 * What is signed for one input: its value is part of it, the values of the others are not.
 * @param wallet its P2WPKH address: that the coin is locked to it is what the digest says
 * @throws Refusal `malformed`
 */
export function digestOfBitcoinInput({ input, transaction }: BitcoinInputPayload, wallet: string): Hex {
  const { chain, inputs, outputs, lockTime } = transaction;
  const network = bitcoinNetworkOf(chain);
  const publicKeyHash = network && publicKeyHashOf(wallet, network);
  if (!publicKeyHash) throw new Refusal('malformed', `wallet ${wallet} has no P2WPKH address of chain ${chain}`);
  return bytesToHex(
    witnessDigest({
      version: VERSION,
      lockTime,
      inputs: inputs.map((coin) => ({ ...coin, sequence: SEQUENCE })),
      outputs: outputs.map(({ address, valueSat }) => ({
        script: scriptOf(address, chain)!,
        valueSat: BigInt(valueSat),
      })),
      input: { index: input, valueSat: BigInt(inputs[input]!.valueSat), publicKeyHash },
    }),
  );
}

function scriptOf(address: string, chain: string): Uint8Array | undefined {
  const network = bitcoinNetworkOf(chain);
  return network && outputScript(address, network);
}
