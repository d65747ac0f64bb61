import type { Family } from '../family.ts';

export const tronFamily = { name: 'tron', feeDecimals: 6 } as Family;
