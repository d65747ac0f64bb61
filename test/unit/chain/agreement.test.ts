import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mostNamed, reachedByMost } from '../../../shared/chain/endpoints/agreement.ts';

const numbers = fc.array(fc.nat(20), { minLength: 1, maxLength: 7 });

describe('what most say', () => {
  it('is the largest number that more than half have reached', () => {
    fc.assert(
      fc.property(numbers, (all) => {
        const reached = (number: number) => all.filter((each) => each >= number).length;
        const found = reachedByMost(all);
        expect(reached(found)).toBeGreaterThan(all.length / 2);
        expect(reached(found + 1)).toBeLessThanOrEqual(all.length / 2);
      }),
    );
  });

  it('is moved by no minority, whatever it says', () => {
    fc.assert(
      fc.property(
        fc.nat(20),
        fc.integer({ min: 1, max: 4 }),
        fc.array(fc.nat(), { maxLength: 3 }),
        (truth, honest, lies) => {
          fc.pre(lies.length < honest);
          const all = [...lies, ...Array.from({ length: honest }, () => truth)];
          expect(reachedByMost(all)).toBe(truth);
          expect(mostNamed(all, String)?.vote).toBe(truth);
        },
      ),
    );
  });

  it('is what was named first, of things named equally often', () => {
    expect(mostNamed(['b', 'a', 'a', 'b'], String)).toEqual({ vote: 'b', count: 2 });
    expect(mostNamed([], String)).toBeUndefined();
  });
});
