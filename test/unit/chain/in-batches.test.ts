import fc from 'fast-check';
import { expect, it } from 'vitest';
import { inBatches } from '../../../shared/chain/endpoints/in-batches.ts';

it('asks about each once, in order, never about more than so many at once, one batch after the other', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(), { maxLength: 50 }), fc.integer({ min: 1, max: 12 }), async (items, size) => {
      let atOnce = 0;
      const answers = await inBatches(items, size, async (batch) => {
        atOnce += 1;
        expect(atOnce).toBe(1);
        expect(batch.length).toBeLessThanOrEqual(size);
        await Promise.resolve();
        atOnce -= 1;
        return batch.map((each) => each + 1);
      });
      expect(answers).toEqual(items.map((each) => each + 1));
    }),
  );
});
