import type { AdapterOptions, ChainAdapter } from '../adapter.ts';

export function createBitcoinAdapter(
  _o: Omit<AdapterOptions, 'maxFee'> & { ceilingSatPerKvb?: bigint | undefined },
): ChainAdapter {
  throw new Error('Not there yet.');
}
