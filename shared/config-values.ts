import { getAddress } from 'viem';
import { z } from 'zod';
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

export const extraToken = z.string().transform((text, context): ExtraToken => {
  const found =
    /^(eip155:\d+)\/erc20:(0x[0-9a-fA-F]{40})=([A-Za-z0-9]{1,16})\/(\d{1,2})(?:\/([^/]{1,64})\/([^/]{1,16}))?$/.exec(
      text,
    );
  if (!found) {
    context.addIssue({
      code: 'custom',
      message: `"${text}" is not like eip155:31337/erc20:0x…=USDC/6 or …=USDC/6/USD Coin/2`,
    });
    return z.NEVER;
  }
  const [, chain = '', contract = '', symbol = '', decimals, name, version] = found;
  if (Number(decimals) > atomDecimals) {
    context.addIssue({ code: 'custom', message: `"${text}" has more than ${atomDecimals} decimals` });
    return z.NEVER;
  }
  return {
    chain,
    asset: getAddress(contract),
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
/** Gwei, at most nine decimals, as bigint wei. */
export const gwei = z
  .string()
  .regex(/^\d{1,9}(\.\d{1,9})?$/, 'is not an amount of gwei')
  .transform((text) => {
    const [whole = '0', fraction = ''] = text.split('.');
    return BigInt(whole + fraction.padEnd(9, '0'));
  });
