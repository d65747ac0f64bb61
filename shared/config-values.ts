import { z } from 'zod';
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
