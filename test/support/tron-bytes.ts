import { secp256k1 } from '@noble/curves/secp256k1.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { createBase58check } from '@scure/base';

/**
 * Tron's bytes read by other code than the service's: a reader of protobuf's wire format and the field numbers of
 * Tron.proto. Nothing is taken from shared/chain/tron, from signer/ or from tronweb.
 * Source: https://protobuf.dev/programming-guides/encoding, https://github.com/tronprotocol/protocol
 */
export interface ReadTransaction {
  readonly id: string;
  readonly rawData: Uint8Array;
  readonly signatures: readonly Uint8Array[];
  readonly refBlockBytes: string;
  readonly refBlockHash: string;
  readonly expirationMs: bigint;
  readonly timestampMs: bigint;
  readonly feeLimitSun: bigint;
  readonly contract: ReadContract;
}

export type ReadContract =
  | { readonly type: 'TransferContract'; readonly owner: string; readonly to: string; readonly amountSun: bigint }
  | {
      readonly type: 'TriggerSmartContract';
      readonly owner: string;
      readonly contract: string;
      readonly data: string;
    };

/** Fields of a message by number, in order. Varints are bigint, length-delimited ones bytes. */
type Fields = Map<number, (bigint | Uint8Array)[]>;

/** @param bytes the whole message `Transaction` @throws Error for every field that is not expected */
export function readTransaction(bytes: Uint8Array): ReadTransaction {
  const message = fieldsOf(bytes, [1, 2, 5]);
  const rawData = bytesAt(message, 1);
  return { ...readRawData(rawData), rawData, signatures: (message.get(2) ?? []) as Uint8Array[] };
}

/** @param rawData the message `Transaction.raw` */
function readRawData(rawData: Uint8Array): Omit<ReadTransaction, 'signatures' | 'rawData'> {
  const raw = fieldsOf(rawData, [1, 4, 8, 11, 14, 18]);
  return {
    id: hexOf(sha256(rawData)),
    refBlockBytes: hexOf(bytesAt(raw, 1)),
    refBlockHash: hexOf(bytesAt(raw, 4)),
    expirationMs: numberAt(raw, 8),
    timestampMs: numberAt(raw, 14),
    feeLimitSun: numberAt(raw, 18),
    contract: readContract(bytesAt(raw, 11)),
  };
}

/** Who signed a transaction. @param signature r | s | v, v from 0 or from 27 on */
export function signerOf(id: string, signature: Uint8Array): string | undefined {
  try {
    const recovery = signature[64]! % 27;
    const sorted = Uint8Array.of(recovery, ...signature.subarray(0, 64));
    const key = secp256k1.recoverPublicKey(sorted, bytesOf(id), { prehash: false });
    const point = secp256k1.Point.fromBytes(key).toBytes(false);
    return addressOf(Uint8Array.of(0x41, ...keccak_256(point.subarray(1)).subarray(12)));
  } catch {
    return undefined;
  }
}

const base58check = createBase58check(sha256);

/** @param bytes 21 @returns base58check, `T…` */
export const addressOf = (bytes: Uint8Array): string => base58check.encode(bytes);
export const addressBytes = (address: string): Uint8Array => base58check.decode(address);
export const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
export const bytesOf = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, 'hex'));

function readContract(bytes: Uint8Array): ReadContract {
  const contract = fieldsOf(bytes, [1, 2]);
  const any = fieldsOf(bytesAt(contract, 2), [1, 2]);
  const url = Buffer.from(bytesAt(any, 1)).toString('utf8');
  const kind = numberAt(contract, 1);
  if (kind === 1n && url === 'type.googleapis.com/protocol.TransferContract') {
    const value = fieldsOf(bytesAt(any, 2), [1, 2, 3]);
    const [owner, to] = [addressOf(bytesAt(value, 1)), addressOf(bytesAt(value, 2))];
    return { type: 'TransferContract', owner, to, amountSun: numberAt(value, 3) };
  }
  if (kind === 31n && url === 'type.googleapis.com/protocol.TriggerSmartContract') {
    const value = fieldsOf(bytesAt(any, 2), [1, 2, 4]);
    const [owner, to] = [addressOf(bytesAt(value, 1)), addressOf(bytesAt(value, 2))];
    return { type: 'TriggerSmartContract', owner, contract: to, data: hexOf(bytesAt(value, 4)) };
  }
  throw new Error(`The double knows no contract ${kind} ${url}.`);
}

function fieldsOf(bytes: Uint8Array, expected: readonly number[]): Fields {
  const fields: Fields = new Map();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined || shift > 63n) throw new Error('A number of the message does not end.');
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const [field, wire] = [Number(tag >> 3n), Number(tag & 7n)];
    if (!expected.includes(field)) throw new Error(`Field ${field} is not expected there.`);
    let value: bigint | Uint8Array;
    if (wire === 0) value = varint();
    else if (wire === 2) {
      const end = Number(varint()) + at;
      if (end > bytes.length) throw new Error('The message is cut off.');
      value = bytes.subarray(at, end);
      at = end;
    } else throw new Error(`Wire type ${wire} is not expected there.`);
    fields.set(field, [...(fields.get(field) ?? []), value]);
  }
  return fields;
}

function bytesAt(fields: Fields, field: number): Uint8Array {
  const [value, ...more] = fields.get(field) ?? [];
  if (!(value instanceof Uint8Array) || more.length > 0) throw new Error(`Field ${field} is not there exactly once.`);
  return value;
}

function numberAt(fields: Fields, field: number): bigint {
  const [value = 0n, ...more] = fields.get(field) ?? [];
  if (typeof value !== 'bigint' || more.length > 0) throw new Error(`Field ${field} is not one number.`);
  return value;
}
