/** The two numbers of a share that the key can be put together from, and nothing of what signing needs besides. */
export interface KeySharePoint {
  party: number;
  threshold: number;
  /** Secret: value of the key's polynomial at `party`. */
  value: bigint;
}

const SCALAR_BYTES = 32;

/**
 * Reads the beginning of a share as the engine writes it (postcard of `Party`, dkls23-secp256k1 0.6.2): threshold u8,
 * parties u8, party u8, session id (length as varint, bytes), and the point of the polynomial (length as varint, 32 bytes
 * big-endian). Whoever uses it checks the outcome against the public key.
 * @throws Error when the bytes do not begin like that
 */
export function readKeySharePoint(share: Uint8Array): KeySharePoint {
  const [threshold = 0, , party = 0] = share;
  const session = readLength(share, 3);
  const scalar = readLength(share, session.end + session.length);
  const bytes = share.subarray(scalar.end, scalar.end + SCALAR_BYTES);
  if (scalar.length !== SCALAR_BYTES || bytes.length !== SCALAR_BYTES) {
    throw new Error('the share does not begin as shares of this version of the engine do');
  }
  return { party, threshold, value: BigInt(`0x${Buffer.from(bytes).toString('hex')}`) };
}

/** A varint: seven bits a byte, the lowest first, the highest bit of a byte says that more follow. */
function readLength(bytes: Uint8Array, at: number): { length: number; end: number } {
  let length = 0;
  for (let index = 0; index < 4; index++) {
    const byte = bytes[at + index] ?? 0;
    length |= (byte & 0x7f) << (7 * index);
    if (byte < 0x80) return { length, end: at + index + 1 };
  }
  throw new Error('the share does not begin as shares of this version of the engine do');
}
