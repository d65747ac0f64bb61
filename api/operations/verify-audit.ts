import {
  type ChainFault,
  type ChainPlace,
  type ChainReport,
  chainStart,
  verifyChain,
} from '../../shared/audit-chain.ts';
import { type ChainState, readChainState } from '../../shared/db/audit-heads.ts';
import { hashOfEntry, readChain } from '../../shared/db/audit-logs.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import { renderAudit } from '../../shared/render-audit.ts';

/** Entries that are read and hashed at a time: some 10 ms, between which other requests have their turn. */
const batch = 500;

interface Wanted {
  readonly accountId: string;
  /** The first entry to check; what is kept from its start on, if absent. */
  readonly fromSeq: number | undefined;
  readonly limit: number;
  /** A head that somebody noted before. */
  readonly noted: ChainPlace | undefined;
}

/**
 * Checks a part of an account's chain, and at its end that it is where the head is.
 * @throws PurserError 400 for a place that is not in what is kept of the chain
 */
export async function verifyAudit(pool: Pool, wanted: Wanted) {
  const { accountId } = wanted;
  let state = await readChainState(pool, { accountId });
  for (;;) {
    const answer = await verifyPart(pool, { ...wanted, state });
    if (answer.valid) return answer;
    // What is missing may have been taken away meanwhile, by retention, which has then left a new checkpoint.
    const later = await readChainState(pool, { accountId });
    if (later.checkpoint?.seq === state.checkpoint?.seq) return answer;
    state = later;
  }
}

async function verifyPart(pool: Pool, { accountId, fromSeq, limit, noted, state }: Wanted & { state: ChainState }) {
  const { head, checkpoint } = state;
  requireKept({ fromSeq, noted, state });
  const start = await entryBefore(pool, { accountId, fromSeq, checkpoint });
  const toSeq = Math.min(start.seq + limit, head.seq);
  const isLast = toSeq === head.seq;
  const report = await follow(pool, { accountId, fromSeq, start, toSeq, noted, state });
  const { valid, checked, last, brokenAt, reason } = isLast ? withinHead(report, state) : report;
  return {
    valid,
    checked,
    head_hash: last.hash,
    broken_at: brokenAt,
    reason,
    from_seq: start.seq + 1,
    to_seq: last.seq,
    complete: valid && isLast,
    next_seq: valid && !isLast ? toSeq + 1 : null,
    checkpoint,
  };
}

/** What cannot be compared is not called valid. */
function requireKept({ fromSeq, noted, state: { head, checkpoint } }: Pick<Wanted, 'fromSeq' | 'noted'> & Stored) {
  const goneSeq = checkpoint?.seq ?? 0;
  const gone = `Entries up to ${goneSeq} were taken away by retention.`;
  if (noted && noted.seq < goneSeq)
    throw new PurserError('invalid_request', `${gone} Note the head of now, and compare with that.`, {
      param: 'head_seq',
    });
  if (fromSeq === undefined) return;
  if (fromSeq <= goneSeq)
    throw new PurserError('invalid_request', `${gone} Begin with ${goneSeq + 1}.`, { param: 'from_seq' });
  // A chain that was cut off meanwhile is told by the head that was noted.
  if (fromSeq > head.seq + 1 && (noted?.seq ?? 0) <= head.seq)
    throw new PurserError('invalid_request', `The chain ends with entry ${head.seq}.`, { param: 'from_seq' });
}

interface Stored {
  readonly state: ChainState;
}

/** What the first entry goes on from; without a hash where that is not there. */
async function entryBefore(
  pool: Pool,
  { accountId, fromSeq, checkpoint }: Pick<Wanted, 'accountId' | 'fromSeq'> & Pick<ChainState, 'checkpoint'>,
): Promise<{ seq: number; hash: string | undefined }> {
  const first = checkpoint ?? chainStart;
  if (fromSeq === undefined || fromSeq === first.seq + 1) return first;
  const seq = fromSeq - 1;
  return { seq, hash: await hashOfEntry(pool, { accountId, seq }) };
}

async function follow(
  pool: Pool,
  {
    accountId,
    fromSeq,
    start: { seq, hash },
    toSeq,
    noted,
    state: { head },
  }: Omit<Wanted, 'limit'> & Stored & { start: { seq: number; hash: string | undefined }; toSeq: number },
): Promise<ChainReport> {
  if (hash === undefined) {
    const last = { seq, hash: chainStart.hash };
    if (seq > head.seq) return broken({ last, checked: 0 }, { reason: 'cut_off', brokenAt: head.seq + 1 });
    return broken({ last, checked: 0 }, { reason: 'missing', brokenAt: seq });
  }
  const heads = [head, ...(noted ? [noted] : [])].filter((each) => toSeq === head.seq || each.seq <= toSeq);
  // Whatever is numbered lower than the first one is looked at as well: it should not be there.
  const rows = readChain(pool, { accountId, fromSeq: fromSeq ?? Number.MIN_SAFE_INTEGER, toSeq, batch });
  return verifyChain(entriesOf(rows), { start: { seq, hash }, heads });
}

async function* entriesOf(batches: ReturnType<typeof readChain>) {
  for await (const rows of batches) for (const row of rows) yield renderAudit(row);
}

/** The same where nothing comes after the head. */
function withinHead(report: ChainReport, { head, lastSeq }: ChainState): ChainReport {
  if (!report.valid || lastSeq <= head.seq) return report;
  return broken(report, { reason: 'inserted', brokenAt: head.seq + 1 });
}

function broken(
  { checked, last }: Pick<ChainReport, 'checked' | 'last'>,
  { reason, brokenAt }: { reason: ChainFault; brokenAt: number },
): ChainReport {
  return { valid: false, checked, last, brokenAt, reason };
}
