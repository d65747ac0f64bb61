import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { describe, expect, it } from 'vitest';
import { createListDueKeys, type DueKeys, type DueKeysQuestion } from '../../../activities/list-due-keys.ts';
import type { SignerClient } from '../../../signer/client.ts';

const parties = [1, 2, 3] as const;
const nowMs = Date.parse('2026-11-28T12:00:00Z');
const dayMs = 86_400_000;

interface Epoch {
  epoch: number;
  state: 'active' | 'stored';
  createdAtMs: number;
}
const epoch = (number: number, ageDays = 40, state: Epoch['state'] = 'active'): Epoch => ({
  ...{ epoch: number, state, createdAtMs: nowMs - ageDays * dayMs },
});
/** Epochs of each key, the same at all three unless told otherwise for one of them. */
type Held = Record<string, Epoch[] | [Epoch[], Epoch[], Epoch[]]>;

/** Asks of signers that say just this. */
async function list(
  held: Held,
  o: Partial<DueKeysQuestion> & { bans?: { keyId: string; party: number; reason: string }[]; silent?: number } = {},
): Promise<DueKeys> {
  const { bans = [], silent, ...question } = o;
  const status = async () =>
    parties.map((party) => {
      if (party === silent) return { party, error: `signer ${party}: no answer in time` };
      const keys = Object.entries(held).flatMap(([keyId, each]) => {
        const epochs = (Array.isArray(each[0]) ? each[party - 1] : each) as Epoch[];
        return epochs.length === 0 ? [] : { keyId, hasRecords: true, epochs };
      });
      return { party, keys, bans: party === 1 ? bans : [] };
    });
  const activity = createListDueKeys({ signer: { status } as unknown as SignerClient });
  const asked: DueKeysQuestion = { olderThanMs: nowMs - 30 * dayMs, after: '', limit: 10, ...question };
  return (await new MockActivityEnvironment().run(activity, asked)) as DueKeys;
}

describe('keys whose shares are to be made anew', () => {
  it('are those with old shares, by the word of two signers', async () => {
    const held: Held = {
      a: [epoch(1)],
      b: [epoch(2, 29)],
      c: [[epoch(1, 1)], [epoch(1)], [epoch(1)]],
      d: [epoch(1, 31)],
    };
    expect(await list(held)).toEqual({ keyIds: ['a', 'c', 'd'], forOperator: 0 });
  });

  it('are also those of which a refresh was not finished', async () => {
    const held: Held = {
      a: [epoch(1, 1), epoch(2, 1, 'stored')],
      b: [[epoch(2, 1)], [epoch(1, 1), epoch(2, 1)], [epoch(2, 1)]],
      c: [epoch(2, 1)],
    };
    expect((await list(held)).keyIds).toEqual(['a', 'b']);
  });

  it('are not those that an operator has to look after', async () => {
    const held: Held = { a: [epoch(1)], b: [[epoch(1)], [], [epoch(1)]], c: [epoch(1)] };
    const bans = [{ keyId: 'c', party: 3, reason: 'it cheated' }];
    expect(await list(held, { bans })).toEqual({ keyIds: ['a'], forOperator: 2 });
    expect(await list(held, { bans, keyId: 'c' })).toEqual({ keyIds: [], forOperator: 1 });
  });

  it('are one where one is asked for, however new', async () => {
    expect(await list({ a: [epoch(1)], b: [epoch(1, 0)] }, { keyId: 'b' })).toEqual({ keyIds: ['b'], forOperator: 0 });
  });

  it('come in batches, in the order of their ids', async () => {
    const held: Held = { c: [epoch(1)], a: [epoch(1)], b: [epoch(1)] };
    expect((await list(held, { limit: 2 })).keyIds).toEqual(['a', 'b']);
    expect((await list(held, { limit: 2, after: 'b' })).keyIds).toEqual(['c']);
  });

  it('are not known while a signer says nothing: it is asked again', async () => {
    const error = await list({ a: [epoch(1)] }, { silent: 2 }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ApplicationFailure);
    expect(error).toMatchObject({ type: 'SignerSilent', message: 'signer 2: no answer in time', nonRetryable: false });
  });
});
