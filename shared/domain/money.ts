/** Why a string is not an amount of a token. */
export type AmountFault = 'not_decimal' | 'too_precise' | 'zero' | 'too_large';

const pattern = /^(0|[1-9]\d*)(\.\d+)?$/;

/** 2^256 - 1: no chain of ours can carry more. */
const maxMinor = (1n << 256n) - 1n;

/** Longest string worth reading: 78 digits, a point, 36 decimals. */
export const maxAmountLength = 115;

/** Whether a string is a plain decimal: no sign, no exponent, no leading zero, not longer than is worth reading. */
export function isDecimal(text: string): boolean {
  return text.length <= maxAmountLength && pattern.test(text);
}

/**
 * Reads a decimal string as minor units, exactly. Nothing is rounded: a digit too many is a fault.
 * @param amount as on the wire, e.g. `"1.50"`
 * @param decimals of the token, e.g. 6
 * @returns minor units, e.g. `1500000n`, or what is wrong
 */
export function parseAmount(amount: string, decimals: number): bigint | AmountFault {
  const minor = parseLimit(amount, decimals);
  return minor === 0n ? 'zero' : minor;
}

/** The same, where zero is allowed (limits, thresholds, balances). */
function parseLimit(amount: string, decimals: number): bigint | AmountFault {
  if (!isDecimal(amount)) return 'not_decimal';
  const [whole = '0', fraction = ''] = amount.split('.');
  const digits = fraction.replace(/0+$/, '');
  if (digits.length > decimals) return 'too_precise';
  const minor = BigInt(whole + digits.padEnd(decimals, '0'));
  return minor > maxMinor ? 'too_large' : minor;
}

/**
 * Writes minor units as the canonical decimal string: no trailing zeros, no point without digits.
 * @example formatAmount(1500000n, 6) === '1.5'
 */
export function formatAmount(minor: bigint, decimals: number): string {
  const sign = minor < 0n ? '-' : '';
  const digits = (minor < 0n ? -minor : minor).toString().padStart(decimals + 1, '0');
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '');
  return sign + (fraction === '' ? whole : `${whole}.${fraction}`);
}

/**
 * The one way to write a plain decimal: no trailing zeros, no point without digits.
 * @param text of which `isDecimal` is true
 */
export function canonicalDecimal(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/**
 * Digits after the point in which amounts of different tokens are added up and compared: no token of ours has more.
 * One atom is 10^-36 of a token.
 */
export const atomDecimals = 36;

/** An amount of a token in atoms. @param decimals of the token, 36 at most */
export function toAtoms(minor: bigint, decimals: number): bigint {
  return minor * 10n ** BigInt(atomDecimals - decimals);
}

/**
 * Reads a limit or threshold in atoms.
 * @param text of which `isDecimal` is true
 * @returns atoms, or what is wrong
 */
export function parseAtoms(text: string): bigint | AmountFault {
  if (!isDecimal(text)) return 'not_decimal';
  const [whole = '0', fraction = ''] = canonicalDecimal(text).split('.');
  return fraction.length > atomDecimals ? 'too_precise' : BigInt(whole + fraction.padEnd(atomDecimals, '0'));
}

/** Atoms as the canonical decimal string. */
export function formatAtoms(atoms: bigint): string {
  return formatAmount(atoms, atomDecimals);
}
