import type { ChainAdapter } from '../adapter.ts';
import type { AdapterOptions } from '../create-adapter.ts';

export function createBitcoinAdapter(
  _o: Omit<AdapterOptions, 'maxFee'> & { ceilingSatPerKvb?: bigint | undefined },
): ChainAdapter {
  throw new Error('Not there yet.');
}
