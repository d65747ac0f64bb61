/**
 * Writes a plain decimal for people: digits before the point in groups of three, split by no-break spaces. A comma would
 * be read as a decimal point by half of the world, and 1,250 approved as a little more than one.
 * @example groupDigits('1250.5') === '1 250.5'
 */
export function groupDigits(decimal: string): string {
  const [whole = '', ...fraction] = decimal.split('.');
  return [whole.replaceAll(/\B(?=(\d{3})+$)/g, '\u00a0'), ...fraction].join('.');
}
