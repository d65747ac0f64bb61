import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  canonicalDecimal,
  formatAmount,
  formatAtoms,
  parseAmount,
  parseAtoms,
  toAtoms,
} from '../../../shared/domain/money.ts';

const decimals = fc.integer({ min: 0, max: 36 });
const minor = fc.bigInt({ min: 1n, max: (1n << 256n) - 1n });

describe('amounts', () => {
  it('F7 make the round trip exactly, whatever the token’s decimals', () => {
    fc.assert(
      fc.property(minor, decimals, (amount, places) => {
        expect(parseAmount(formatAmount(amount, places), places)).toBe(amount);
      }),
    );
    expect(parseAmount('1.000000000000000001', 18)).toBe(1_000_000_000_000_000_001n);
  });

  it('are written canonically: no zeros behind, no point without digits', () => {
    fc.assert(
      fc.property(minor, decimals, fc.nat(5), (amount, places, zeros) => {
        const text = formatAmount(amount, places);
        expect(text).toMatch(/^(0|[1-9]\d*)(\.\d*[1-9])?$/);
        const padded = text.includes('.') ? text + '0'.repeat(zeros) : text;
        expect(canonicalDecimal(padded)).toBe(text);
      }),
    );
  });

  it.each([
    '1e-3',
    '+1',
    '0x1',
    ' 1',
    '1 ',
    '-1',
    '.5',
    '1.',
    '01',
    '1,5',
    '',
    '1_000',
    '１',
    'NaN',
    'Infinity',
    '1.2.3',
  ])('F33 %j is no amount', (text) => {
    expect(parseAmount(text, 18)).toBe('not_decimal');
  });

  it('F33 are never rounded: a digit too many is refused, zeros behind are no digits', () => {
    expect(parseAmount('0.0000001', 6)).toBe('too_precise');
    expect(parseAmount('0.1000000', 6)).toBe(100_000n);
    fc.assert(
      fc.property(minor, fc.integer({ min: 1, max: 36 }), (amount, places) => {
        fc.pre(amount % 10n !== 0n);
        expect(parseAmount(formatAmount(amount, places), places - 1)).toBe('too_precise');
      }),
    );
  });

  it('are more than zero, and no more than a chain can carry', () => {
    expect(parseAmount('0', 6)).toBe('zero');
    expect(parseAmount('0.000', 6)).toBe('zero');
    expect(parseAmount((1n << 256n).toString(), 0)).toBe('too_large');
    expect(parseAmount('9'.repeat(100_000), 0)).toBe('not_decimal');
  });

  it('of 6, 18 and 36 decimals compare exactly in atoms', () => {
    const one = fc.record({ minor, decimals: fc.constantFrom(6, 18, 36) });
    fc.assert(
      fc.property(one, one, (a, b) => {
        const scale = (amount: typeof a) => amount.minor * 10n ** BigInt(36 - amount.decimals);
        expect(toAtoms(a.minor, a.decimals) < toAtoms(b.minor, b.decimals)).toBe(scale(a) < scale(b));
        expect(parseAtoms(formatAmount(a.minor, a.decimals).slice(0, 115))).toBe(toAtoms(a.minor, a.decimals));
      }),
    );
    expect(toAtoms(1n, 6)).toBe(toAtoms(10n ** 12n, 18));
    expect(toAtoms(1n, 36) - toAtoms(0n, 6)).toBe(1n);
  });

  it('make the round trip through atoms', () => {
    fc.assert(
      fc.property(minor, (atoms) => {
        expect(parseAtoms(formatAtoms(atoms))).toBe(atoms);
      }),
    );
    expect(parseAtoms(`0.${'0'.repeat(35)}1`)).toBe(1n);
    expect(parseAtoms(`0.${'0'.repeat(36)}1`)).toBe('too_precise');
    expect(parseAtoms(`1.${'0'.repeat(50)}`)).toBe(10n ** 36n);
    expect(parseAtoms('1e3')).toBe('not_decimal');
  });
});
