import type { ChainAdapter } from '../adapter.ts';
import type { AdapterOptions } from '../create-adapter.ts';

export function createTronAdapter(
  _o: Omit<AdapterOptions, 'maxFee'> & { maxFeeSun?: bigint | undefined },
): ChainAdapter {
  throw new Error('Not there yet.');
}
