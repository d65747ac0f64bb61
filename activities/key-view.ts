import type { PartyNumber } from '../shared/domain/signer-alerts.ts';
import type { SignerReport } from './signer-report.ts';

/** A key at one signer that answered; `epochs` is empty where it has no share of it. */
export interface HeldKey {
  readonly party: PartyNumber;
  readonly hasRecords: boolean;
  readonly epochs: SignerReport['keys'][number]['epochs'];
}

export interface KeyView {
  readonly keyId: string;
  /** At every signer that answered. */
  readonly held: readonly HeldKey[];
}

/** Every key that somebody holds; those that one alone tells of come last. */
export function keysOf(answering: readonly SignerReport[]): KeyView[] {
  const byParty = answering.map(({ party, keys }) => ({ party, keys: new Map(keys.map((key) => [key.keyId, key])) }));
  const ids = [...new Set(byParty.flatMap(({ keys }) => [...keys.keys()]))].sort();
  const views = ids.map((keyId) => ({
    keyId,
    held: byParty.map(({ party, keys }) => {
      const { hasRecords = true, epochs = [] } = keys.get(keyId) ?? {};
      return { party, hasRecords, epochs };
    }),
  }));
  const isToldByOne = ({ held }: KeyView) => held.filter(({ epochs }) => epochs.length > 0).length === 1;
  return [...views.filter((view) => !isToldByOne(view)), ...views.filter(isToldByOne)];
}

/** The epoch that signs; 0 for none. */
export function newestActive({ epochs }: HeldKey): number {
  return Math.max(0, ...epochs.filter(({ state }) => state === 'active').map(({ epoch }) => epoch));
}

/** Of three times the one in between, of two the earlier: one signer cannot make a key younger or older. */
export function middleOfTimes(epochs: readonly { readonly createdAtMs: number }[]): number {
  const times = epochs.map(({ createdAtMs }) => createdAtMs).sort((a, b) => a - b);
  return times[Math.floor((times.length - 1) / 2)] ?? 0;
}
