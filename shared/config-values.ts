import { z } from 'zod';
import { familyOf } from './chain/families.ts';
import type { ExtraToken } from './chain/registry.ts';
import { atomDecimals } from './domain/money.ts';
import { readNetwork } from './domain/networks.ts';
import { readFeeTiers } from './domain/x402-fee.ts';

// What single variables of the environment may hold.

export const chainId = z.string().regex(/^[a-z0-9-]{3,8}:[A-Za-z0-9]{1,64}$/, 'is a CAIP-2 id such as eip155:8453');
export const port = z.coerce.number().int().min(0).max(65_535);
export const list = z.string().transform((text) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== ''),
);

/** Networks (CIDR) or addresses of proxies, as text. */
export const network = z.string().transform((text, context) => {
  const read = readNetwork(text);
  const wrong =
    'wrong' in read
      ? read.wrong
      : read.network.endsWith('/0') && 'is everybody: whoever connects could say where they come from';
  if (!wrong && 'network' in read) return read.network;
  context.addIssue({ code: 'custom', message: `"${text}" ${wrong}` });
  return z.NEVER;
});

/** An origin as browsers send it: scheme, host and port, and nothing behind them; never a pattern. */
export const origin = z
  .string()
  .refine(
    (text) => /^https?:\/\/[^*]+$/.test(text) && URL.parse(text)?.origin === text,
    'is not like https://console.example.com',
  );

/** How contracts are named on the chains that have tokens, by the namespace of the chain's id. Source: CAIP-19. */
const tokenStandards: Readonly<Record<string, string>> = { eip155: 'erc20', tron: 'trc20' };
/** Chain, standard, contract, symbol, decimals; and of a token that is paid by authorisation, its EIP-712 name and version. */
const tokenPattern =
  /^([a-z0-9-]{3,8}:[A-Za-z0-9]{1,64})\/([a-z0-9]+):([A-Za-z0-9]+)=([A-Za-z0-9]{1,16})\/(\d{1,2})(?:\/([^/]{1,64})\/([^/]{1,16}))?$/;
const tokenExamples =
  'eip155:31337/erc20:0x…=USDC/6 or …=USDC/6/USD Coin/2, or on Tron like tron:0x2b6653dc/trc20:T…=USDT/6';

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

export const feeTiers = z.string().transform((text, context) => {
  const tiers = readFeeTiers(text);
  if (typeof tiers !== 'string') return tiers;
  context.addIssue({ code: 'custom', message: tiers });
  return z.NEVER;
});

export const depth = z.coerce.number().int().min(1).max(1_000);
export const rpcUrls = list.pipe(
  z
    .array(z.url({ protocol: /^https?$/, error: 'is not an http(s) URL' }))
    .min(1)
    // Most endpoints decide what is final: one that is named twice would have two votes.
    .refine(
      (urls) => new Set(urls.map((url) => url.replace(/\/$/, ''))).size === urls.length,
      'names an endpoint twice',
    ),
);
/** A plain decimal, at most so many fraction digits, as bigint of the smallest of them. */
function decimal(digits: number, unit: string): z.ZodType<bigint> {
  return z
    .string()
    .regex(
      new RegExp(`^\\d{1,9}(\\.\\d{1,${digits}})?$`),
      `is not an amount of ${unit} with at most ${digits} decimals`,
    )
    .transform((text) => {
      const [whole = '0', fraction = ''] = text.split('.');
      return BigInt(whole + fraction.padEnd(digits, '0'));
    });
}

/** As wei. */
export const gwei = decimal(9, 'gwei');
/** As satoshis for a thousand virtual bytes. */
export const satPerVirtualByte = decimal(3, 'satoshis a virtual byte');
/** As sun. */
export const trx = decimal(6, 'TRX');
