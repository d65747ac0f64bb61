import type { KeyEpochs } from './epoch.ts';
import { PARTIES, type Party } from './parties.ts';
import type { Epoch } from './store/epochs.ts';

/** What is to be done about the shares of a key, going by what each signer has. */
export type RefreshPlan =
  /** All three have the newest epoch and nothing else, and it is new enough. */
  | { kind: 'current'; epoch: number }
  /** All three have stored the newest epoch, and the run ended before all of them knew. */
  | { kind: 'complete'; epoch: number; isComplete: boolean }
  | { kind: 'run'; fromEpoch: number; toEpoch: number }
  /** Some have no epoch that both others use. */
  | { kind: 'repair'; parties: Party[] }
  /** Nobody has it. */
  | { kind: 'unknown' };

/**
 * @param p.olderThanMs an epoch that was made at or after that time is new enough
 * @param p.complete only one by a complete refresh is
 */
export function planRefresh(
  found: ReadonlyMap<Party, KeyEpochs>,
  p: { complete: boolean; olderThanMs: number | undefined },
): RefreshPlan {
  const epochsOf = (party: Party) => found.get(party)?.epochs ?? [];
  const all = PARTIES.flatMap(epochsOf);
  if (all.length === 0) return { kind: 'unknown' };
  const newest = newestOfAll(PARTIES.map(epochsOf));
  if (newest) {
    const [{ epoch }] = newest as [Epoch];
    const isOver = newest.every(({ state }) => state === 'active') && PARTIES.every((q) => epochsOf(q).length === 1);
    const isComplete = newest.every((e) => e.complete);
    if (!isOver) return { kind: 'complete', epoch, isComplete };
    const isNew = newest.every(({ createdAtMs }) => createdAtMs >= (p.olderThanMs ?? Number.POSITIVE_INFINITY));
    if (isNew && (isComplete || !p.complete)) return { kind: 'current', epoch };
  }
  const fromEpoch = commonEpoch(PARTIES.map(epochsOf));
  if (fromEpoch === undefined) return { kind: 'repair', parties: missing(found) };
  const inUse = all.filter(({ state }) => state === 'active').map(({ epoch }) => epoch);
  return { kind: 'run', fromEpoch, toEpoch: Math.max(...inUse) + 1 };
}

/** The newest epoch that anybody has, at each, where all have it by the same run. */
function newestOfAll(held: readonly Epoch[][]): Epoch[] | undefined {
  const number = Math.max(...held.flat().map(({ epoch }) => epoch));
  const same = held.flatMap((epochs) => epochs.filter(({ epoch }) => epoch === number));
  return same.length === held.length && same.every((e) => e.sessionId === same[0]!.sessionId) ? same : undefined;
}

/** The highest epoch that all of these use. */
export function commonEpoch(held: readonly (readonly Epoch[])[]): number | undefined {
  const [first = [], ...others] = held;
  const isUsedBy = (epochs: readonly Epoch[], { epoch, sessionId }: Epoch) =>
    epochs.some((e) => e.state === 'active' && e.epoch === epoch && e.sessionId === sessionId);
  const common = first.filter((e) => isUsedBy(first, e) && others.every((epochs) => isUsedBy(epochs, e)));
  return common.at(-1)?.epoch;
}

/** Those whom the two others can help: they have an epoch in common that this one does not use. */
function missing(found: ReadonlyMap<Party, KeyEpochs>): Party[] {
  return PARTIES.filter((party) => {
    const helpers = PARTIES.filter((other) => other !== party).map((other) => found.get(other)?.epochs ?? []);
    return commonEpoch(helpers) !== undefined;
  });
}
