import { createHash } from 'node:crypto';
import type { Hex } from 'viem';
import { z } from 'zod';
import type { TronContract, TronTransaction } from '../../shared/domain/receipt.ts';
import { isTronChain } from '../chains.ts';
import { encodeMessage, type Field } from './protobuf.ts';
import { tronAddressBytes } from './tron-address.ts';

const INT64_MAX = 2n ** 63n - 1n;
/** A token transfer has 68 bytes; anything near this limit is no payment. */
const DATA_BYTES_MAX = 1024;
/** Numbers of `ContractType`. */
const TRANSFER_CONTRACT = 1n;
const TRIGGER_SMART_CONTRACT = 31n;

const address = z.string().refine((s) => tronAddressBytes(s), 'must be an address of Tron (T…)');
const sun = z
  .string()
  .regex(/^(0|[1-9][0-9]{0,18})$/, 'must be a decimal string without sign or leading zeros')
  .refine((s) => BigInt(s) <= INT64_MAX, 'is too large');
const hex = (bytes: number) =>
  z.string().regex(new RegExp(`^[0-9a-f]{${2 * bytes}}$`), `must be ${bytes} bytes in lower-case hex`);

/** The only shape of a Tron transaction that a signer reads. There is no memo, no permission but the owner's, one contract. */
export const tronTransactionSchema = z.strictObject({
  chain: z.string().refine(isTronChain, 'is no chain of Tron that is signed for'),
  from: address,
  contract: z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('transfer'), to: address, amountSun: sun }),
    z.strictObject({
      type: z.literal('trigger'),
      contract: address,
      data: z
        .string()
        .regex(/^([0-9a-f]{2})*$/, 'must be bytes in lower-case hex')
        .max(2 * DATA_BYTES_MAX),
    }),
  ]),
  refBlockBytes: hex(2),
  refBlockHash: hex(8),
  timestampMs: z.int().positive(),
  expirationMs: z.int().positive(),
  feeLimitSun: sun,
  bandwidthSun: sun,
}) satisfies z.ZodType<TronTransaction>;

/** SHA-256 of `raw_data`, which is the transaction's id, too. */
export function digestOfTronTransaction(transaction: TronTransaction): Hex {
  return `0x${createHash('sha256').update(rawDataOf(transaction)).digest('hex')}`;
}

/** `Transaction.raw`, its fields in their order. Source: `protocol/src/main/protos/core/Tron.proto` of java-tron. */
function rawDataOf(transaction: TronTransaction): Uint8Array {
  const { contract, from, refBlockBytes, refBlockHash, expirationMs, timestampMs, feeLimitSun } = transaction;
  const { number, name, message } = contractOf(contract, from);
  const any: Field[] = [
    [1, new TextEncoder().encode(`type.googleapis.com/protocol.${name}`)],
    [2, encodeMessage(message)],
  ];
  return encodeMessage([
    [1, bytesOf(refBlockBytes)],
    [4, bytesOf(refBlockHash)],
    [8, BigInt(expirationMs)],
    [
      11,
      [
        [1, number],
        [2, any],
      ],
    ],
    [14, BigInt(timestampMs)],
    [18, BigInt(feeLimitSun)],
  ]);
}

/** Source: `core/contract/balance_contract.proto` and `smart_contract.proto` of java-tron. */
function contractOf(contract: TronContract, from: string): { number: bigint; name: string; message: Field[] } {
  const owner = tronAddressBytes(from)!;
  if (contract.type === 'transfer') {
    const to = tronAddressBytes(contract.to)!;
    const message: Field[] = [
      [1, owner],
      [2, to],
      [3, BigInt(contract.amountSun)],
    ];
    return { number: TRANSFER_CONTRACT, name: 'TransferContract', message };
  }
  const message: Field[] = [
    [1, owner],
    [2, tronAddressBytes(contract.contract)!],
    [4, bytesOf(contract.data)],
  ];
  return { number: TRIGGER_SMART_CONTRACT, name: 'TriggerSmartContract', message };
}

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, 'hex'));
