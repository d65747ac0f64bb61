import { createHash } from 'node:crypto';

/** A Bitcoin transaction as its bytes have it; read by code that the product does not use. */
export interface ReadBitcoin {
  readonly version: number;
  readonly inputs: readonly { txid: string; vout: number; script: Buffer; sequence: number; witness: Buffer[] }[];
  readonly outputs: readonly { valueSat: bigint; script: Buffer }[];
  readonly lockTime: number;
  readonly txid: string;
  /** Four for each byte, one for those of witnesses. */
  readonly weight: number;
}

const hash256 = (bytes: Buffer) => createHash('sha256').update(createHash('sha256').update(bytes).digest()).digest();

function reader(bytes: Buffer) {
  let at = 0;
  const take = (length: number) => {
    if (at + length > bytes.length) throw new Error('The transaction ends too early.');
    at += length;
    return bytes.subarray(at - length, at);
  };
  const number = (length: number) => take(length).readUIntLE(0, length);
  const count = () => {
    const first = number(1);
    if (first < 0xfd) return first;
    return number(first === 0xfd ? 2 : 4);
  };
  return {
    take,
    number,
    count,
    value: () => take(8).readBigUInt64LE(),
    isWitness: () => bytes[at] === 0,
    left: () => bytes.length - at,
  };
}

/** Reads the bytes of a transaction, with witnesses or without. @see BIP-144 */
export function readBitcoin(raw: string): ReadBitcoin {
  const bytes = Buffer.from(raw, 'hex');
  const read = reader(bytes);
  const version = read.number(4);
  const hasWitnesses = read.isWitness();
  if (hasWitnesses && read.take(2).toString('hex') !== '0001') throw new Error('Marker and flag are wrong.');
  const inputs = Array.from({ length: read.count() }, () => ({
    txid: Buffer.from(read.take(32)).reverse().toString('hex'),
    vout: read.number(4),
    script: read.take(read.count()),
    sequence: read.number(4),
    witness: [] as Buffer[],
  }));
  const outputs = Array.from({ length: read.count() }, () => ({
    valueSat: read.value(),
    script: read.take(read.count()),
  }));
  const beforeWitnesses = read.left();
  if (hasWitnesses)
    for (const input of inputs) input.witness = Array.from({ length: read.count() }, () => read.take(read.count()));
  const witnessBytes = hasWitnesses ? beforeWitnesses - read.left() + 2 : 0;
  const lockTime = read.number(4);
  if (read.left() !== 0) throw new Error('Bytes are left over.');
  const body = hasWitnesses ? bytes.subarray(6, bytes.length - 4 - (witnessBytes - 2)) : bytes.subarray(4, -4);
  const plain = Buffer.concat([bytes.subarray(0, 4), body, bytes.subarray(-4)]);
  const weight = plain.length * 4 + witnessBytes;
  return { version, inputs, outputs, lockTime, weight, txid: hash256(plain).reverse().toString('hex') };
}

const uint32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const uint64 = (value: bigint) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
};
const outpoint = ({ txid, vout }: { txid: string; vout: number }) =>
  Buffer.concat([Buffer.from(txid, 'hex').reverse(), uint32(vout)]);

/** Whose input, and the 20 bytes that its coin is bound to. */
type Spent = { input: number; valueSat: bigint; keyHash: Buffer };

/** What is signed for an input that spends a P2WPKH coin, by SIGHASH_ALL. @see BIP-143 */
export function digestOfBitcoin(transaction: ReadBitcoin, spent: Spent): Buffer {
  return hash256(preimageOfBitcoin(transaction, spent));
}

/** The bytes that its digest is the double SHA-256 of. */
export function preimageOfBitcoin(
  { version, inputs, outputs, lockTime }: ReadBitcoin,
  { input, valueSat, keyHash }: Spent,
): Buffer {
  const own = inputs[input]!;
  return Buffer.concat([
    uint32(version),
    hash256(Buffer.concat(inputs.map(outpoint))),
    hash256(Buffer.concat(inputs.map(({ sequence }) => uint32(sequence)))),
    outpoint(own),
    Buffer.from('1976a914', 'hex'),
    keyHash,
    Buffer.from('88ac', 'hex'),
    uint64(valueSat),
    uint32(own.sequence),
    hash256(
      Buffer.concat(
        outputs.map(({ valueSat: sat, script }) => Buffer.concat([uint64(sat), Buffer.from([script.length]), script])),
      ),
    ),
    uint32(lockTime),
    uint32(1),
  ]);
}
