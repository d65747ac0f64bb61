import { Refusal } from './refusal.ts';

type Kind = 'keygen' | 'refresh' | 'merge' | 'sign';

/** How many runs of each kind one signer has open. Key generation fills a core for seconds, a complete refresh too. */
const OPEN_MAX = { keygen: 2, refresh: 2, merge: 4, sign: 256 } as const satisfies Record<Kind, number>;
/** How long a run may take from its first message; then it is dropped. */
const AGE_MAX_MS = { keygen: 120_000, refresh: 300_000, merge: 600_000, sign: 30_000 } as const satisfies Record<
  Kind,
  number
>;
/** Ids of ended runs that are remembered, so that none is used twice. */
const ENDED_MAX = 20_000;
const SWEEP_INTERVAL_MS = 5_000;

/** State of one run, and how to throw it away. */
export interface Session {
  close(): void;
}

/** The open runs of one signer. A run is used by one request at a time, and is gone after the first error. */
export interface SessionTable {
  /**
   * @param p.about what only one run at a time is for: the one that is open ends, because whoever led it is gone
   * @throws Refusal `busy` above the limit, `bad_message` for an id that was used before
   */
  open(p: { id: string; kind: Kind; about?: string }): void;
  /** Keeps the state between two requests. */
  park(id: string, session: Session): void;
  /**
   * Takes the state out, so that nobody else has it.
   * @throws Refusal `unknown_session`, `bad_message` while another message is worked on or for a run of another kind
   */
  take(id: string, kind: Kind): Session;
  /** Ends a run; harmless when it has ended already. */
  end(id: string): void;
  count(kind: Kind): number;
  /** Opens no more runs, as if there were too many. @returns a promise of the moment when the open ones have ended */
  drain(): Promise<void>;
  stop(): void;
}

export function createSessionTable(p: {
  now: () => Date;
  onExpired: (p: { id: string; kind: Kind }) => void;
}): SessionTable {
  const open = new Map<
    string,
    { kind: Kind; about: string | undefined; sinceMs: number; session: Session | undefined }
  >();
  const ended = new Set<string>();
  const drained = Promise.withResolvers<void>();
  let isDraining = false;

  function end(id: string): void {
    const entry = open.get(id);
    if (!entry) return;
    open.delete(id);
    ended.add(id);
    if (ended.size > ENDED_MAX) ended.delete(ended.values().next().value!);
    entry.session?.close();
    if (isDraining && open.size === 0) drained.resolve();
  }
  function count(kind: Kind): number {
    let n = 0;
    for (const entry of open.values()) if (entry.kind === kind) n++;
    return n;
  }
  function sweep(): void {
    const nowMs = p.now().getTime();
    for (const [id, { kind, sinceMs }] of open) {
      if (nowMs - sinceMs <= AGE_MAX_MS[kind]) continue;
      end(id);
      p.onExpired({ id, kind });
    }
  }
  const sweeper = setInterval(sweep, SWEEP_INTERVAL_MS).unref();

  return {
    open({ id, kind, about }) {
      if (open.has(id) || ended.has(id)) throw new Refusal('bad_message', `session ${id} was used before`);
      if (isDraining) throw new Refusal('busy', 'this signer is stopping; ask another one');
      if (about !== undefined) {
        for (const [other, entry] of open) if (entry.kind === kind && entry.about === about) end(other);
      }
      if (count(kind) >= OPEN_MAX[kind]) {
        throw new Refusal('busy', `${OPEN_MAX[kind]} ${kind} sessions are open already; ask again later`);
      }
      open.set(id, { kind, about, sinceMs: p.now().getTime(), session: undefined });
    },
    park(id, session) {
      const entry = open.get(id);
      if (entry) entry.session = session;
      else session.close(); // ended while it was being worked on
    },
    take(id, kind) {
      const entry = open.get(id);
      if (!entry)
        throw new Refusal('unknown_session', `session ${id} is not open here: ended, expired, or before a restart`);
      if (entry.kind !== kind)
        throw new Refusal('bad_message', `session ${id} is one of ${entry.kind}, not of ${kind}`);
      const { session } = entry;
      if (!session) throw new Refusal('bad_message', `session ${id} is working on another message`);
      entry.session = undefined;
      return session;
    },
    end,
    count,
    drain() {
      isDraining = true;
      if (open.size === 0) drained.resolve();
      return drained.promise;
    },
    stop() {
      clearInterval(sweeper);
      for (const id of [...open.keys()]) end(id);
    },
  };
}
