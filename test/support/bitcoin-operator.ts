import type { BitcoinNode } from '../../dev/btcd.ts';
import { type BlockTemplate, emptyBlock } from './empty-block.ts';

/** Plays the miner of a regtest chain: blocks, reorganisations, and what waits for a block. */
export interface BitcoinOperator {
  /** Blocks with everything that waits for one. */
  mine(blocks?: number): Promise<void>;
  /** Blocks with nothing of it. */
  mineEmpty(blocks?: number): Promise<void>;
  /** The newest `depth` blocks are replaced by one more of empty ones: what they held waits for a block again. */
  reorg(depth: number): Promise<void>;
  /** Hashes of what waits for a block. */
  waiting(): Promise<string[]>;
  height(): Promise<number>;
}

/** @param node the one that runs now; nobody else mines on it */
export function createBitcoinOperator(node: () => BitcoinNode): BitcoinOperator {
  const height = () => node().rpc<number>('getblockcount');

  async function submitEmpty(blocks: number): Promise<void> {
    const { rpc } = node();
    for (let mined = 0; mined < blocks; mined += 1) {
      const template = await rpc<BlockTemplate>('getblocktemplate', { rules: ['segwit'] });
      const refusal = await rpc<string | null>('submitblock', emptyBlock(template));
      if (refusal !== null) throw new Error(`The node refuses an empty block: ${refusal}`);
    }
    await node().keep();
  }

  return {
    async mine(blocks = 1) {
      await node().mine(blocks);
    },
    mineEmpty: (blocks = 1) => submitEmpty(blocks),
    async reorg(depth) {
      const { rpc } = node();
      await rpc('invalidateblock', await rpc<string>('getblockhash', (await height()) - depth + 1));
      await submitEmpty(depth + 1);
    },
    waiting: () => node().rpc<string[]>('getrawmempool'),
    height,
  };
}
