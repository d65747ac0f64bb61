import type { CustomSlotSupplier, SlotInfo, SlotReserveContext } from '@temporalio/worker';
import { describe, expect, it } from 'vitest';
import { createSlotGate } from '../../../worker/slot-gate.ts';

const context = {} as SlotReserveContext;
const slotInfo = { type: 'activity', activityType: 'any' } as const;
const never = new AbortController().signal;

/** What becomes of a reservation, as far as it is known after all that is ready has run. */
async function stateOf(reservation: Promise<unknown>): Promise<string> {
  const states = reservation.then(
    () => 'granted',
    (error: Error) => error.name,
  );
  return Promise.race([states, new Promise<string>((resolve) => setImmediate(() => resolve('waiting')))]);
}
const reserve = (slots: CustomSlotSupplier<SlotInfo>, signal: AbortSignal = never) =>
  slots.reserveSlot(context, signal);

describe('the gate through which workers ask for tasks', () => {
  it('hands out so many slots, and the next one when one is given back', async () => {
    const slots = createSlotGate().slots(2);
    const [first, second, third] = [reserve(slots), reserve(slots), reserve(slots)];
    expect(await Promise.all([first, second, third].map(stateOf))).toEqual(['granted', 'granted', 'waiting']);
    expect(slots.tryReserveSlot(context)).toBeNull();
    slots.markSlotUsed({ slotInfo, permit: {} });
    expect(await stateOf(third)).toBe('waiting');
    slots.releaseSlot({ slotInfo, permit: {} });
    expect(await stateOf(third)).toBe('granted');
    slots.releaseSlot({ permit: {} });
    expect(slots.tryReserveSlot(context)).toEqual({});
  });

  it('forgets who does not need it any more', async () => {
    const slots = createSlotGate().slots(1);
    await reserve(slots);
    const ending = new AbortController();
    const [given, waiting] = [reserve(slots, ending.signal), reserve(slots)];
    ending.abort();
    expect(await stateOf(given)).toBe('AbortError');
    expect(await stateOf(reserve(slots, AbortSignal.abort()))).toBe('AbortError');
    slots.releaseSlot({ permit: {} });
    expect(await stateOf(waiting)).toBe('granted');
  });

  it('closed, grants nothing, and is drained when all that was asked for has come or come to nothing', async () => {
    const gate = createSlotGate();
    const [activities, workflows] = [gate.slots(5), gate.slots(5)];
    for (const slots of [activities, workflows, workflows]) await reserve(slots);
    const drained = gate.close();
    expect(await stateOf(reserve(activities))).toBe('waiting');
    expect(activities.tryReserveSlot(context)).toBeNull();
    activities.markSlotUsed({ slotInfo, permit: {} });
    workflows.releaseSlot({ permit: {} });
    expect(await stateOf(drained)).toBe('waiting');
    workflows.releaseSlot({ permit: {} });
    expect(await stateOf(drained)).toBe('granted');
    // What is under way goes on, and nothing follows it.
    activities.releaseSlot({ slotInfo, permit: {} });
    expect(activities.tryReserveSlot(context)).toBeNull();
  });

  it('is drained at once when nothing was asked for', async () => {
    expect(await stateOf(createSlotGate().close())).toBe('granted');
  });
});
