import { scriptOf } from './parse-address.ts';

/** Version, lock time, and the numbers of inputs and outputs, which are below 253 each. Source: BIP-144. */
const frameBytes = 4 + 4 + 1 + 1;
/** Transaction id, output number, an empty script and its length, sequence. */
const inputBytes = 32 + 4 + 1 + 4;
/** Value and the length of the script, which is below 253. */
const outputHeadBytes = 8 + 1;
/** Marker and flag of a transaction with witnesses. */
const segwitBytes = 2;
/**
 * Two items: a signature and a compressed key. A signature with a low s has 71 bytes of DER at most, and one says how it
 * was made (BIP-62, BIP-66); about half have one byte less.
 */
const witnessBytes = 1 + (1 + 72) + (1 + 33);
/** Witness bytes count for a quarter. Source: BIP-141. */
const witnessScale = 4;

const bytesOf = (outputs: readonly Uint8Array[]) =>
  outputs.reduce((sum, script) => sum + outputHeadBytes + script.length, 0);

/**
 * Virtual bytes of transactions of P2WPKH coins, by their number: the most that they can have once signed.
 * @param p.outputs addresses
 */
export function virtualSizes({ outputs, chain }: { outputs: readonly string[]; chain: string }) {
  const besides = frameBytes + bytesOf(outputs.map((address) => scriptOf(address, chain)));
  return (inputs: number): bigint => {
    const weight = (besides + inputs * inputBytes) * witnessScale + segwitBytes + inputs * witnessBytes;
    return BigInt(Math.ceil(weight / witnessScale));
  };
}

/** The same of one transaction. @param p.inputs how many coins */
export function virtualSize({ inputs, ...p }: Parameters<typeof virtualSizes>[0] & { inputs: number }): bigint {
  return virtualSizes(p)(inputs);
}

/** Virtual bytes that one coin more adds, at most. */
export const inputVirtualSize = BigInt(Math.ceil(inputBytes + witnessBytes / witnessScale));

/** Satoshis for a number of virtual bytes, rounded up. @param satPerKvb for a thousand of them */
export function feeAt(satPerKvb: bigint, vsize: bigint): bigint {
  return (satPerKvb * vsize + 999n) / 1000n;
}

/** Nodes pass on no output that would cost more to spend than it holds, at this rate. Source: Bitcoin Core, DUST_RELAY_TX_FEE. */
const dustSatPerKvb = 3000n;
/** What spending an output takes, as nodes count it: half a witness's discount for SegWit. Source: Bitcoin Core, GetDustThreshold. */
const spendingBytes = { plain: 32 + 4 + 1 + 107 + 4, segwit: 32 + 4 + 1 + Math.floor(107 / witnessScale) + 4 };

/** Satoshis that an output to an address must hold at least: 294 for P2WPKH, 330 for P2WSH and P2TR, 546 for P2PKH. */
export function dustLimit(address: string, chain: string): bigint {
  const script = scriptOf(address, chain);
  // A SegWit script is a version (OP_0, or OP_1 to OP_16) and one push of 2 to 40 bytes. Source: BIP-141.
  const isSegwit = (script[0] === 0 || (script[0]! >= 0x51 && script[0]! <= 0x60)) && script[1] === script.length - 2;
  const bytes = bytesOf([script]) + (isSegwit ? spendingBytes.segwit : spendingBytes.plain);
  return feeAt(dustSatPerKvb, BigInt(bytes));
}
