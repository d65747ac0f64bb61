import { isAddress } from 'viem';
import { createRegistry, type ExtraToken, refusedChains, type Token } from '../../shared/chain/registry.ts';
import { formatAmount, isDecimal, parseAmount } from '../../shared/domain/money.ts';
import { walletName } from '../address.ts';
import { tronAddressBytes } from '../digest/tron-address.ts';
import { UsageError } from './command.ts';

/** An asset as limits name it, and in how many decimals people write amounts of it. */
export interface LimitAsset {
  /** `<chain>/native` or `<chain>/<contract>`, of EVM chains in lower case. */
  name: string;
  decimals: number;
}

const chainPattern = /^(eip155:[1-9]\d{0,15}|tron:0x[0-9a-f]{8}|bip122:[0-9a-f]{32})$/;

/**
 * Reads `CHAIN/TOKEN`: a symbol of the registry, `native`, or the address of a contract.
 * @param p.decimals of a contract that the registry does not know
 * @param p.extraTokens what it knows besides
 * @throws UsageError
 */
export function readLimitAsset(p: {
  asset: string | undefined;
  decimals: string | undefined;
  extraTokens?: readonly ExtraToken[];
}): LimitAsset {
  const [chain = '', token = '', ...rest] = (p.asset ?? '').split('/');
  if (!chainPattern.test(chain) || token === '' || rest.length > 0) {
    throw new UsageError(
      '--asset must be CHAIN/TOKEN, such as eip155:8453/USDC, eip155:8453/native, eip155:8453/0x… or tron:0x2b6653dc/T…',
    );
  }
  const given = readDecimals(p.decimals);
  const known = knownTokens(chain, p.extraTokens).find(
    ({ symbol, asset }) => symbol === token.toUpperCase() || walletName(asset) === nameOf(token),
  );
  if (known) {
    if (given !== undefined && given !== known.decimals) {
      throw new UsageError(`--decimals ${given} is wrong: ${known.symbol} on ${chain} has ${known.decimals}`);
    }
    return { name: `${chain}/${walletName(known.asset)}`, decimals: known.decimals };
  }
  if (nameOf(token) !== 'native' && !isContract(token, chain)) {
    const hint = chain.startsWith('bip122:') ? 'it has bitcoin alone' : 'give the contract’s address';
    throw new UsageError(`--asset ${chain}/${token}: there is no ${token} on that chain here; ${hint}`);
  }
  if (given === undefined) {
    throw new UsageError(`--decimals is missing: how many decimals ${token} on ${chain} has, which is not known here`);
  }
  return { name: `${chain}/${nameOf(token)}`, decimals: given };
}

/** Of the asset as limits name it; undefined: not known here, and amounts are told in minor units. */
export function decimalsOf(name: string, extraTokens?: readonly ExtraToken[]): number | undefined {
  const [chain = '', asset] = name.split('/');
  return knownTokens(chain, extraTokens).find((token) => walletName(token.asset) === asset)?.decimals;
}

/**
 * Reads a limit in whole units of the asset, such as `25.50`; `any` and nothing: no limit.
 * @returns minor units as limits have them
 * @throws UsageError
 */
export function readLimitAmount(option: string, p: { text: string | undefined; decimals: number }): string | null {
  const { text, decimals } = p;
  if (text === undefined || text === 'any') return null;
  const minor = isDecimal(text) ? parseAmount(text, decimals) : 'not_decimal';
  if (minor === 'zero') return '0';
  if (typeof minor === 'bigint') return String(minor);
  const why =
    minor === 'too_precise' ? `has more than ${decimals} decimals` : 'is no amount such as 25 or 0.5, and not any';
  throw new UsageError(`${option} ${text} ${why}`);
}

/** As people write it, where the decimals are known. */
export function writeLimitAmount(minor: string | null, decimals: number | undefined): string {
  if (minor === null) return 'any';
  return decimals === undefined ? `${minor} minor units` : formatAmount(BigInt(minor), decimals);
}

/** As limits name it. */
const nameOf = (token: string) => (token.toLowerCase() === 'native' ? 'native' : walletName(token));

function isContract(token: string, chain: string): boolean {
  if (chain.startsWith('tron:')) return tronAddressBytes(token) !== undefined;
  return chain.startsWith('eip155:') && isAddress(token, { strict: false });
}

function readDecimals(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,2}$/.test(text) || Number(text) > 36) throw new UsageError('--decimals must be a number from 0 to 36');
  return Number(text);
}

function knownTokens(chain: string, extraTokens: readonly ExtraToken[] = []): readonly Token[] {
  const environment = (['production', 'sandbox'] as const).find(
    (each) => refusedChains({ environment: each, enabled: [chain] }).length === 0,
  );
  return environment ? createRegistry({ environment, enabled: [chain], extraTokens }).chain(chain)!.tokens : [];
}
