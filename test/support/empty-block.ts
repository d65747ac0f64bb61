import { createHash, randomBytes } from 'node:crypto';

/** The part of a block template (BIP-22) that a block without transactions is made from. */
export interface BlockTemplate {
  readonly version: number;
  readonly previousblockhash: string;
  readonly height: number;
  readonly curtime: number;
  /** Target in its compact form, as hex. */
  readonly bits: string;
}

/** Of a block's header and of a transaction. */
const sha256d = (bytes: Uint8Array) =>
  createHash('sha256').update(createHash('sha256').update(bytes).digest()).digest();
/** On regtest every second hash is good enough. */
const mostNonces = 1_000;
/** OP_TRUE: whoever wants it can have it; there is nothing. */
const toAnybody = '51';

/**
 * A block of a regtest chain with nothing in it but its coinbase, as of a miner who takes no transaction, in hex.
 * It claims no reward, so that it need not know of any fee. Source: BIP-34 (height in the coinbase).
 */
export function emptyBlock({ version, previousblockhash, height, curtime, bits }: BlockTemplate): string {
  const coinbase = coinbaseOf(height);
  const header = Buffer.alloc(80);
  header.writeInt32LE(version, 0);
  Buffer.from(previousblockhash, 'hex').reverse().copy(header, 4);
  // The root of a tree of one.
  sha256d(coinbase).copy(header, 36);
  header.writeUInt32LE(curtime, 68);
  Buffer.from(bits, 'hex').reverse().copy(header, 72);
  for (let nonce = 0; nonce < mostNonces; nonce += 1) {
    header.writeUInt32LE(nonce, 76);
    // Below 7fff…: the highest bit of the number, which is written from its end, is not set.
    if (sha256d(header).at(-1)! < 0x7f) return Buffer.concat([header, Buffer.of(1), coinbase]).toString('hex');
  }
  throw new Error(`No block of height ${height} within ${mostNonces} nonces: its target (${bits}) is not regtest's.`);
}

function coinbaseOf(height: number): Buffer {
  // Chance tells it apart from another one of the same height and second.
  const script = Buffer.concat([minimalPush(height), Buffer.of(4), randomBytes(4)]);
  return Buffer.from(
    [
      '01000000',
      `01${'00'.repeat(32)}ffffffff${hexOf(script.length)}${script.toString('hex')}ffffffff`,
      `01${'00'.repeat(8)}01${toAnybody}`,
      '00000000',
    ].join(''),
    'hex',
  );
}

/** As the script writes the number in its shortest form. */
function minimalPush(height: number): Buffer {
  if (height <= 16) return Buffer.of(0x50 + height);
  const bytes: number[] = [];
  for (let rest = height; rest > 0; rest >>= 8) bytes.push(rest & 0xff);
  if (bytes.at(-1)! >= 0x80) bytes.push(0);
  return Buffer.of(bytes.length, ...bytes);
}

const hexOf = (length: number) => length.toString(16).padStart(2, '0');
