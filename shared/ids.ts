import { typeid } from 'typeid-js';

/** Every kind of identifier, by the prefix that the interface fixes (or, for kinds it does not name, that we chose). */
export type IdPrefix =
  | 'acct'
  | 'agent'
  | 'tx'
  | 'pol'
  | 'key'
  | 'wal'
  | 'ckey'
  | 'dec'
  | 'apr'
  | 'evt'
  | 'aud'
  | 'ptpl'
  | 'sess'
  | 'whk'
  | 'dlv'
  | 'led'
  | 'user'
  | 'mbr'
  | 'sid'
  | 'alrt'
  | 'frz';

/**
 * A new identifier: the prefix and a UUIDv7 in base32, so that ids made later sort later.
 * @see https://github.com/jetify-com/typeid
 */
export function newId<P extends IdPrefix>(prefix: P): `${P}_${string}` {
  return typeid(prefix).toString() as `${P}_${string}`;
}

const shape = /^[a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/** Whether a string can be an identifier with this prefix; one that cannot be need not be looked up. */
export function isId(prefix: IdPrefix, value: string): boolean {
  return value.startsWith(`${prefix}_`) && shape.test(value);
}
