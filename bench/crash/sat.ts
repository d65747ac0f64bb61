import { formatUnits, parseUnits } from 'viem';

const decimals = 8;

export const formatSat = (sat: bigint): string => formatUnits(sat, decimals);
export const parseSat = (btc: string): bigint => parseUnits(btc, decimals);
