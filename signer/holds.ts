import type { Level } from './rolling-day.ts';

/** What a signature under way may cost, in one asset of one wallet. */
export interface Hold extends Level {
  /** In lower case. */
  wallet: string;
  asset: string;
}

/** What signatures under way at this signer may cost: counted before it is signed away, so that none pass together. */
export interface HoldTable {
  put(session: string, holds: readonly Hold[]): void;
  release(session: string): void;
  /** Those of the other sessions. */
  others(session: string, of: { wallet: string; asset: string }): Hold[];
}

export function createHoldTable(): HoldTable {
  // No more entries than sessions: whoever opens one releases it when the session closes.
  const bySession = new Map<string, readonly Hold[]>();
  return {
    put: (session, holds) => void bySession.set(session, holds),
    release: (session) => void bySession.delete(session),
    others(session, { wallet, asset }) {
      const found: Hold[] = [];
      for (const [id, holds] of bySession) {
        if (id !== session) found.push(...holds.filter((hold) => hold.wallet === wallet && hold.asset === asset));
      }
      return found;
    },
  };
}
