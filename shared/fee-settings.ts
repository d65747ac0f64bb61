import type { z } from 'zod';
import { familyOf } from './chain/families.ts';
import type { ChainFamily } from './chain/registry.ts';
import { depth, gwei, satPerVirtualByte, trx } from './config-values.ts';
import { type Env, perChain, readOptional, variableOf } from './read-env.ts';

/** How the operator says what a payment may cost at most, in the unit in which people speak of fees there. */
const ceilings: Readonly<Record<ChainFamily, { prefix: string; parse: z.ZodType<bigint> }>> = {
  evm: { prefix: 'PURSER_MAX_FEE_GWEI', parse: gwei },
  bitcoin: { prefix: 'PURSER_MAX_FEE_SAT_PER_VB', parse: satPerVirtualByte },
  tron: { prefix: 'PURSER_MAX_FEE_TRX', parse: trx },
};

const speedUpPrefix = 'PURSER_SPEED_UP_AFTER_BLOCKS';

/** What is said of fees, by chain; of the others the chain's default holds. */
export interface FeeSettings {
  /** The most that is paid, in the family's unit; see `createChainAdapter`. */
  readonly maxFee: Readonly<Record<string, bigint>>;
  /** Blocks after which a payment that none has taken offers more. */
  readonly speedUpAfterBlocks: Readonly<Record<string, number>>;
}

/** @param chains CAIP-2 ids of known families @throws ConfigError */
export function readFees(env: Env, chains: readonly string[]): FeeSettings {
  const maxFee: Record<string, bigint> = {};
  for (const chain of chains) {
    const { prefix, parse } = ceilings[familyOf(chain).name];
    const ceiling = readOptional(env, variableOf(prefix, chain), parse);
    if (ceiling !== undefined) maxFee[chain] = ceiling;
  }
  return { maxFee, speedUpAfterBlocks: perChain(env, speedUpPrefix, chains, depth) };
}

/** A sentence for each thing that is said of fees and means nothing on its chain: whoever wrote it counts on it. */
export function wrongFees(env: Env, chains: readonly string[]): string[] {
  return chains.flatMap((chain) => [...misnamedCeilings(env, chain), ...idleSpeedUp(env, chain)]);
}

function misnamedCeilings(env: Env, chain: string): string[] {
  const right = ceilings[familyOf(chain).name].prefix;
  return Object.values(ceilings)
    .filter(({ prefix }) => prefix !== right && env[variableOf(prefix, chain)])
    .map(
      ({ prefix }) =>
        `${variableOf(prefix, chain)} is in a unit that ${chain} does not have. Set ${variableOf(right, chain)} instead.`,
    );
}

function idleSpeedUp(env: Env, chain: string): string[] {
  const [variable, reason] = [variableOf(speedUpPrefix, chain), familyOf(chain).irreplaceable];
  return env[variable] && reason !== undefined ? [`${variable} can do nothing. ${reason}`] : [];
}
