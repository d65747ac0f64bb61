import { z } from 'zod';
import { familyOf } from './chain/families.ts';
import type { ExtraToken } from './chain/registry.ts';
import { atomDecimals } from './domain/money.ts';

/** How contracts are named on the chains that have tokens, by the namespace of the chain's id. Source: CAIP-19. */
const tokenStandards: Readonly<Record<string, string>> = { eip155: 'erc20', tron: 'trc20' };
/** Chain, standard, contract, symbol, decimals; and of a token that is paid by authorisation, its EIP-712 name and version. */
const tokenPattern =
  /^([a-z0-9-]{3,8}:[A-Za-z0-9]{1,64})\/([a-z0-9]+):([A-Za-z0-9]+)=([A-Za-z0-9]{1,16})\/(\d{1,2})(?:\/([^/]{1,64})\/([^/]{1,16}))?$/;
const tokenExamples =
  'eip155:31337/erc20:0x…=USDC/6 or …=USDC/6/USD Coin/2, or on Tron like tron:0x2b6653dc/trc20:T…=USDT/6';

/** A token beyond the built-in ones, as the operator writes it: close to CAIP-19. */
export const extraToken = z.string().transform((text, context): ExtraToken => {
  const refuse = (message: string): never => {
    context.addIssue({ code: 'custom', message: `"${text}" ${message}` });
    return z.NEVER;
  };
  const [, chain = '', standard, contract = '', symbol = '', decimals, name, version] = tokenPattern.exec(text) ?? [];
  const isNamed = standard !== undefined && tokenStandards[chain.split(':', 1)[0]!] === standard;
  // Signed authorisations (EIP-3009) are of Ethereum's contracts.
  if (!isNamed || (name !== undefined && standard !== 'erc20')) return refuse(`is not like ${tokenExamples}`);
  const read = familyOf(chain).readAddress(contract, chain);
  if ('fault' in read) return refuse(`is not like ${tokenExamples}: the address of its contract ${read.sentence}`);
  if (Number(decimals) > atomDecimals) return refuse(`has more than ${atomDecimals} decimals`);
  return {
    chain,
    asset: read.address,
    symbol: symbol.toUpperCase(),
    decimals: Number(decimals),
    ...(name !== undefined && version !== undefined && { domain: { name, version } }),
  };
});
