import type { Family } from '../family.ts';

export const bitcoinFamily = { name: 'bitcoin', feeDecimals: 8 } as Family;
