import { type Acting, insertAudit } from './db/audit.ts';
import { insertEvent } from './db/events.ts';
import { insertFreezeNote } from './db/freeze-notes.ts';
import { type FreezeRow, type FreezeSubject, freeze, isOperators, type ShownFreeze, unfreeze } from './db/freezes.ts';
import type { Queryable } from './db/pool.ts';
import { PurserError } from './errors.ts';
import { renderFreeze } from './render-freeze.ts';

/**
 * Freezes, with audit entry and event, in the caller's database transaction; take it before any other lock. Whoever calls
 * has the signers told then. Of the whole installation the accounts are told afterwards, see tell-accounts.ts.
 * @param p.by whose freeze it is, where not of who acts: `system` for one that the service lifts by itself
 */
export async function freezeAndNote(
  db: Queryable,
  {
    reason,
    acting,
    by = acting.actor.id ?? acting.actor.type,
    ...subject
  }: FreezeSubject & { reason: string; acting: Acting; by?: string },
): Promise<FreezeRow> {
  const { row, isNew } = await freeze(db, { ...subject, reason, by });
  if (isNew) await note(db, { subject, change: 'frozen', freeze: row, acting });
  return row;
}

/**
 * Lifts a freeze, as above.
 * @param p.onlyOf whose it has to be; another one stays, as if there was none
 * @returns what was lifted; undefined where there was nothing to lift
 * @throws PurserError 403 for a freeze of the installation's operator, unless it is they who lift it: let it pass, so that it
 *   stays
 */
export async function unfreezeAndNote(
  db: Queryable,
  { acting, onlyOf, ...subject }: FreezeSubject & { acting: Acting; onlyOf?: 'system' },
): Promise<FreezeRow | undefined> {
  const row = await unfreeze(db, { ...subject, onlyOf });
  if (!row) return undefined;
  if (isOperators(row) && acting.actor.type !== 'system')
    throw new PurserError(
      'insufficient_permissions',
      `It was frozen by whoever runs this installation, at ${row.created_at.toISOString()} (${row.reason}): only they lift that.`,
      { details: { freeze: renderFreeze(row) } },
    );
  await note(db, { subject, change: 'unfrozen', freeze: row, acting });
  return row;
}

type Change = 'frozen' | 'unfrozen';

async function note(
  db: Queryable,
  { subject, ...about }: { subject: FreezeSubject; change: Change; freeze: FreezeRow; acting: Acting },
): Promise<void> {
  if (subject.scope === 'installation') await insertFreezeNote(db, about);
  else await noteFor(db, { ...about, accountId: subject.accountId });
}

/** What one account is told of a freeze: by an event, and in its audit log. */
export async function noteFor(
  db: Queryable,
  {
    accountId,
    change,
    freeze,
    acting,
  }: {
    accountId: string;
    change: Change;
    freeze: ShownFreeze & { readonly agent_id: string | null };
    acting: Acting;
  },
): Promise<void> {
  const kind = freeze.agent_id === null ? ('account' as const) : ('agent' as const);
  const about = { accountId, resourceType: kind, resourceId: freeze.agent_id ?? accountId, agentId: freeze.agent_id };
  const shown = renderFreeze(freeze);
  const data = { account_id: accountId, agent_id: freeze.agent_id, ...shown };
  await insertEvent(db, { ...about, type: `${kind}.${change}`, data });
  await insertAudit(db, {
    ...about,
    action: `${kind}.${change}`,
    acting,
    result: 'success',
    changes: change === 'frozen' ? { before: null, after: shown } : { before: shown, after: null },
  });
}
