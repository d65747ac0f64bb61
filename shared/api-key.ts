import { createHash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

export type Environment = 'sandbox' | 'production';

const mode = { sandbox: 'test', production: 'live' } as const;
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** 62^43 > 2^256 and 62^6 > 2^32: both parts have a fixed width. */
const secretLength = 43;
const checksumLength = 6;
const shape = new RegExp(`^purser_(live|test)_[0-9A-Za-z]{${secretLength + checksumLength}}$`);

function base62(value: bigint, length: number): string {
  let rest = value;
  let text = '';
  for (let place = 0; place < length; place += 1) {
    text = alphabet[Number(rest % 62n)] + text;
    rest /= 62n;
  }
  return text;
}

/** The checksum covers prefix and environment too, so that a key edited to fit elsewhere is no key. */
const checksum = (text: string): string => base62(BigInt(crc32(text)), checksumLength);

export interface NewApiKey {
  /** The whole key: shown once, never stored. */
  readonly key: string;
  /** Masked form for lists, e.g. `purser_test_3fGh…`. */
  readonly prefix: string;
  /** SHA-256 of the whole key: what is stored. */
  readonly hash: Buffer;
}

/** Makes a key: `purser_<test|live>_`, 256 random bits in base62, and a CRC-32 by which a typing error is seen without a query. */
export function makeApiKey({ environment }: { environment: Environment }): NewApiKey {
  const secret = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), secretLength);
  const unchecked = `purser_${mode[environment]}_${secret}`;
  const key = unchecked + checksum(unchecked);
  return { key, prefix: `purser_${mode[environment]}_${secret.slice(0, 4)}…`, hash: hashApiKey(key) };
}

/** Whether a string can be a key of this environment: its shape and checksum, not whether it exists. */
export function isApiKey(text: string, { environment }: { environment: Environment }): boolean {
  if (!shape.test(text) || !text.startsWith(`purser_${mode[environment]}_`)) return false;
  return checksum(text.slice(0, -checksumLength)) === text.slice(-checksumLength);
}

/** What is stored of a key. 256 random bits need no salt and no slow hash. */
export function hashApiKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
