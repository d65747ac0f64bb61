import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';

/** An entry of the audit log, as on the wire. Its members are fixed: every one of them but `hash` is hashed. */
export interface AuditEntry {
  readonly id: string;
  /** Place in its account's chain, from 1. */
  readonly seq: number;
  /** `resource.verb` in the past. */
  readonly action: string;
  readonly actor: { readonly type: string; readonly id: string | null; readonly name: string | null };
  readonly resource: { readonly type: string; readonly id: string | null };
  readonly agent_id: string | null;
  readonly result: string;
  readonly ip_address: string | null;
  readonly user_agent: string | null;
  readonly request_id: string | null;
  /** `{before, after}` where something was changed. */
  readonly changes: unknown;
  readonly metadata: unknown;
  /** Hash of the entry before; of the first one, 64 zeros. */
  readonly prev_hash: string;
  readonly hash: string;
  /** ISO 8601, UTC, with milliseconds. */
  readonly created_at: string;
}

/** An entry by its place and its hash, which stands for all that came before it too. */
export interface ChainPlace {
  readonly seq: number;
  readonly hash: string;
}

/** What stands before the first entry. */
export const chainStart: ChainPlace = { seq: 0, hash: '0'.repeat(64) };

/** How a chain can be broken. */
export type ChainFault =
  /** The entry does not have the hash that it says. */
  | 'changed'
  /** There is no entry with this number, and there are later ones. */
  | 'missing'
  /** There is one entry more than there can be. */
  | 'inserted'
  /** The entry with this number stands after later ones. */
  | 'out_of_order'
  /** The first entry does not go on from where the chain is to begin. */
  | 'wrong_start'
  /** The entry is whole and says that another one was before it: one of the two was written anew. */
  | 'unlinked'
  /** The chain is whole, and is not the one that had this head. */
  | 'rewritten'
  /** The chain ends before a head that it had. */
  | 'cut_off';

export interface ChainReport {
  readonly valid: boolean;
  /** Entries that are whole, from the start on. */
  readonly checked: number;
  /** The last of them, or the start. */
  readonly last: ChainPlace;
  /** Number of the first entry that is not as it was written; null if none. */
  readonly brokenAt: number | null;
  readonly reason: ChainFault | null;
}

/**
 * The hash of an entry: SHA-256 in hex of the 64 characters of `prev_hash`, followed by the canonical JSON (RFC 8785) of
 * the entry without `hash`, in UTF-8.
 * @throws Error where it has no canonical form, as with an unpaired surrogate
 */
export function hashAuditEntry(entry: Omit<AuditEntry, 'hash'>): string {
  const { hash: _own, ...hashed } = entry as AuditEntry;
  return createHash('sha256')
    .update(entry.prev_hash)
    .update(canonicalize(hashed) as string)
    .digest('hex');
}

/**
 * Follows a chain to its first broken place. Holds one entry at a time.
 * @param entries in their order; whatever they are, nothing is thrown about them
 * @param start the entry before the first one
 * @param heads entries that the chain has to go through, by what was noted of them; any before the start is not looked at
 */
export async function verifyChain(
  entries: AsyncIterable<unknown> | Iterable<unknown>,
  { start = chainStart, heads = [] }: { start?: ChainPlace; heads?: readonly ChainPlace[] } = {},
): Promise<ChainReport> {
  const noted = new Map<number, Set<string>>();
  for (const { seq, hash } of heads) noted.set(seq, (noted.get(seq) ?? new Set()).add(hash));
  const isNoted = (place: ChainPlace) => [...(noted.get(place.seq) ?? [])].every((hash) => hash === place.hash);
  const rest = inTurn(entries);
  let last = start;
  let checked = 0;
  const broken = (reason: ChainFault, brokenAt: number) => ({ valid: false, checked, last, brokenAt, reason });
  try {
    if (!isNoted(start)) return broken('rewritten', start.seq);
    for (let next = await rest.next(); !next.done; next = await rest.next()) {
      const found = faultOf(next.value, { last, isFirst: checked === 0 });
      if (found) return broken(await withHindsight(found, rest), found.at);
      last = { seq: last.seq + 1, hash: (next.value as AuditEntry).hash };
      if (!isNoted(last)) return broken('rewritten', last.seq);
      checked += 1;
    }
    if (heads.some(({ seq }) => seq > last.seq)) return broken('cut_off', last.seq + 1);
    return { valid: true, checked, last, brokenAt: null, reason: null };
  } finally {
    await rest.return();
  }
}

interface Fault {
  readonly reason: ChainFault;
  /** Number of the broken place. */
  readonly at: number;
}

/** What is wrong with an entry after these, as far as it shows by itself. */
function faultOf(entry: unknown, { last, isFirst }: { last: ChainPlace; isFirst: boolean }): Fault | undefined {
  const expected = last.seq + 1;
  const seq = seqOf(entry);
  if (seq === undefined) return { reason: 'changed', at: expected };
  if (seq < expected) return { reason: isFirst ? 'wrong_start' : 'inserted', at: seq };
  if (seq > expected) return { reason: isFirst ? 'wrong_start' : 'missing', at: expected };
  if (!hasOwnHash(entry as AuditEntry)) return { reason: 'changed', at: expected };
  if ((entry as AuditEntry).prev_hash !== last.hash)
    return { reason: isFirst ? 'wrong_start' : 'unlinked', at: expected };
  return undefined;
}

/** What comes after a broken place may say more about it. */
async function withHindsight({ reason, at }: Fault, rest: AsyncGenerator<unknown, void>): Promise<ChainFault> {
  if (reason === 'inserted') return reason;
  if (reason === 'changed' || reason === 'unlinked') {
    const next = await rest.next();
    return !next.done && seqOf(next.value) === at ? 'inserted' : reason;
  }
  for await (const entry of rest) if (seqOf(entry) === at) return 'out_of_order';
  return reason;
}

function seqOf(entry: unknown): number | undefined {
  const seq = (entry as AuditEntry | null | undefined)?.seq;
  return Number.isSafeInteger(seq) ? seq : undefined;
}

function hasOwnHash(entry: AuditEntry): boolean {
  try {
    return hashAuditEntry(entry) === entry.hash;
  } catch {
    return false;
  }
}

async function* inTurn(entries: AsyncIterable<unknown> | Iterable<unknown>): AsyncGenerator<unknown, void> {
  yield* entries;
}
