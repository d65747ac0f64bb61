import type { AdapterOptions, ChainAdapter } from '../adapter.ts';

export function createTronAdapter(
  _o: Omit<AdapterOptions, 'maxFee'> & { maxFeeSun?: bigint | undefined },
): ChainAdapter {
  throw new Error('Not there yet.');
}
