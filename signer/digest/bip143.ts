import { createHash } from 'node:crypto';

/** SIGHASH_ALL: the signature holds for all inputs and all outputs. */
const SIGHASH_ALL = 1;
const OUTPOINT_BYTES = 36;

/** What a signature over one P2WPKH input holds for. */
interface Signed {
  version: number;
  lockTime: number;
  /** `txid` as explorers show it. */
  inputs: readonly { txid: string; vout: number; sequence: number }[];
  outputs: readonly { script: Uint8Array; valueSat: bigint }[];
  /** The one that is signed: its index, its satoshis, and the hash of the public key that it is locked to. */
  input: { index: number; valueSat: bigint; publicKeyHash: Uint8Array };
}

/** The digest of one input by SIGHASH_ALL, 32 bytes. Source: BIP-143, "Specification". */
export function witnessDigest({ version, lockTime, inputs, outputs, input }: Signed): Uint8Array {
  const outpoints = inputs.map(outpoint);
  const sequences = inputs.map(({ sequence }) => uint32(sequence));
  const scriptCode = Uint8Array.of(0x19, 0x76, 0xa9, 0x14, ...input.publicKeyHash, 0x88, 0xac);
  return hash256(
    Buffer.concat([
      uint32(version),
      hash256(Buffer.concat(outpoints)),
      hash256(Buffer.concat(sequences)),
      outpoints[input.index]!,
      scriptCode,
      uint64(input.valueSat),
      sequences[input.index]!,
      hash256(Buffer.concat(outputs.map(output))),
      uint32(lockTime),
      uint32(SIGHASH_ALL),
    ]),
  );
}

/** In blocks the bytes of a transaction id stand the other way round than explorers show them. */
function outpoint({ txid, vout }: { txid: string; vout: number }): Buffer {
  const bytes = Buffer.alloc(OUTPOINT_BYTES);
  Buffer.from(txid, 'hex').reverse().copy(bytes);
  bytes.writeUInt32LE(vout, OUTPOINT_BYTES - 4);
  return bytes;
}

/** Scripts are shorter than 253 bytes here, so their length is one byte. */
function output({ script, valueSat }: { script: Uint8Array; valueSat: bigint }): Buffer {
  return Buffer.concat([uint64(valueSat), Uint8Array.of(script.length), script]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function uint64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

function hash256(bytes: Uint8Array): Uint8Array {
  const once = createHash('sha256').update(bytes).digest();
  return new Uint8Array(createHash('sha256').update(once).digest());
}
