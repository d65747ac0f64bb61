import { type ChainPlace, hashAuditEntry } from '../shared/audit-chain.ts';
import { type AuditHead, ensureAuditHead, lockAuditHead, moveAuditHead } from '../shared/db/audit-heads.ts';
import { type AuditInboxRow, accountsWithUnsealed, deleteUnsealed, oldestUnsealed } from '../shared/db/audit-inbox.ts';
import { type AuditLogRow, insertAuditLogs } from '../shared/db/audit-logs.ts';
import { inTransaction, isConnectionError, type Pool } from '../shared/db/pool.ts';
import { soundJson } from '../shared/domain/sound-json.ts';
import type { Logger } from '../shared/log.ts';
import { renderAuditContent } from '../shared/render-audit.ts';
import { createLoop, type Loop } from './loop.ts';

/** Entries of one account that are sealed at a time: some 30 ms of work, for which nobody waits but the account's next. */
const maxEntries = 500;
/** Accounts that have their turn in one round. */
const maxAccounts = 100;
/** How long an entry waits at most where nothing else is to be sealed. */
const idleMs = 200;

/**
 * Gives entries of the audit log their place in their account's chain, in the order in which they were written as far as
 * they are there: one that was committed late takes the next place, and its `created_at` is raised to that of the entry
 * before. May run in several processes; each account is sealed by one of them at a time. An account with many entries has
 * a batch sealed each round, and so holds nobody up.
 */
export function createAuditSealer({ pool, logger }: { pool: Pool; logger: Logger }): Loop {
  const failing = new Set<string>();
  let after = '';

  /** One batch of one account. An account whose entries cannot be sealed is no reason to leave the others' unsealed. */
  async function seal(accountId: string): Promise<'more' | 'done'> {
    try {
      const sealed = await sealAccount(pool, { accountId });
      failing.delete(accountId);
      return sealed === maxEntries ? 'more' : 'done';
    } catch (error) {
      if (isConnectionError(error)) throw error;
      if (!failing.has(accountId)) logger.error({ accountId, err: error }, 'audit entries cannot be sealed');
      failing.add(accountId);
      return 'done';
    }
  }

  async function round(): Promise<'busy' | 'idle'> {
    const accounts = await accountsWithUnsealed(pool, { after, limit: maxAccounts });
    let isBusy = accounts.length === maxAccounts || after !== '';
    for (const accountId of accounts) if ((await seal(accountId)) === 'more') isBusy = true;
    after = accounts.length === maxAccounts ? accounts.at(-1)! : '';
    return isBusy ? 'busy' : 'idle';
  }

  return createLoop({ name: 'audit sealer', idleMs, round, logger });
}

/**
 * Seals one batch of an account's entries, all of it or nothing.
 * @returns how many; none while another process is at it
 */
async function sealAccount(pool: Pool, { accountId }: { accountId: string }): Promise<number> {
  await ensureAuditHead(pool, { accountId });
  return inTransaction(pool, async (db) => {
    const head = await lockAuditHead(db, { accountId });
    if (!head) return 0;
    const waiting = await oldestUnsealed(db, { accountId, limit: maxEntries });
    const sealed = chain(waiting, head);
    const last = sealed.at(-1);
    if (!last) return 0;
    await insertAuditLogs(db, sealed);
    const ids = sealed.map(({ id }) => id);
    if ((await deleteUnsealed(db, { ids })) !== ids.length) throw new Error('Somebody else takes entries out as well.');
    await moveAuditHead(db, { accountId, seq: Number(last.seq), hash: last.hash, createdAt: last.created_at });
    return sealed.length;
  });
}

/** The entries with their places after the head. */
function chain(waiting: readonly AuditInboxRow[], head: AuditHead): AuditLogRow[] {
  let last: AuditHead = head;
  return waiting.map((row) => {
    const sealed = place(row, last);
    last = { seq: last.seq + 1, hash: sealed.hash, createdAt: sealed.created_at };
    return sealed;
  });
}

function place(row: AuditInboxRow, last: ChainPlace & { createdAt: Date }): AuditLogRow {
  const unhashed = {
    ...row,
    seq: last.seq + 1,
    changes: soundJson(row.changes),
    metadata: soundJson(row.metadata),
    prev_hash: last.hash,
    created_at: new Date(Math.max(row.created_at.getTime(), last.createdAt.getTime())),
  };
  return { ...unhashed, hash: hashAuditEntry(renderAuditContent(unhashed)) };
}
