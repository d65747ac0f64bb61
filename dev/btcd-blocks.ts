import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { BtcdRpc } from './btcd-rpc.ts';

/** Bytes of a block's header, of which its hash is made. */
const HEADER_BYTES = 80;

/** The blocks of a regtest node, kept beside it: btcd empties the database of this network at every start. */
export interface BlockFile {
  /** Hands the node all blocks that are kept, in the order in which it had them. */
  restore(): Promise<void>;
  /** Keeps what the node's chain has beyond what is kept already. */
  save(): Promise<void>;
}

/** @param file one line of hexadecimal digits for each block; only ever appended to */
export function createBlockFile({ file, rpc }: { file: string; rpc: BtcdRpc }): BlockFile {
  const kept = new Set<string>();
  let queue: Promise<unknown> = Promise.resolve();

  return {
    async restore() {
      if (!existsSync(file)) return;
      const text = readFileSync(file, 'utf8');
      const whole = text.slice(0, text.lastIndexOf('\n') + 1);
      // The last line is half written, when the machine died just then.
      if (whole !== text) writeFileSync(file, whole);
      for (const block of whole.split('\n').slice(0, -1)) {
        const refusal = await rpc<string | null>('submitblock', block);
        if (refusal !== null) throw new Error(`The Bitcoin node refuses a block of ${file}: ${refusal}`);
        kept.add(hashOf(block));
      }
    },
    save() {
      const saved = queue.then(append);
      queue = saved.catch(() => {});
      return saved;
    },
  };

  async function append(): Promise<void> {
    const missing: { hash: string; hex: string }[] = [];
    let height = await rpc<number>('getblockcount');
    let hash = await rpc<string>('getbestblockhash');
    for (; height > 0 && !kept.has(hash); height -= 1) {
      const hex = await rpc<string>('getblock', hash, 0);
      missing.unshift({ hash, hex });
      hash = previousOf(hex);
    }
    appendFileSync(file, missing.map(({ hex }) => `${hex}\n`).join(''));
    for (const block of missing) kept.add(block.hash);
  }
}

function hashOf(block: string): string {
  const header = Buffer.from(block.slice(0, HEADER_BYTES * 2), 'hex');
  const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest();
  return sha256(sha256(header)).reverse().toString('hex');
}

/** The header's second field, 4 bytes in. */
function previousOf(block: string): string {
  return Buffer.from(block.slice(8, 72), 'hex').reverse().toString('hex');
}
