import { freezeAndNote, unfreezeAndNote } from '../../shared/change-freeze.ts';
import type { Acting } from '../../shared/db/audit.ts';
import type { FreezeSubject } from '../../shared/db/freezes.ts';
import type { Queryable } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import { noReason } from '../schemas/freeze.ts';

/** What somebody wants of a freeze. */
export interface FreezeWish {
  readonly frozen?: boolean | undefined;
  readonly freeze_reason?: string | undefined;
}

/**
 * Freezes an account or an agent or lifts that, as it is wished, if it is. In a database transaction before any lock but an
 * agent's; whoever calls has the signers told after it.
 * @throws PurserError 403 for a key that would lift a freeze, and for whoever would lift one of the installation's operator
 */
export async function setFrozen(
  db: Queryable,
  { subject, wish, acting }: { subject: FreezeSubject; wish: FreezeWish; acting: Acting },
): Promise<void> {
  if (wish.frozen === undefined) return;
  if (wish.frozen) {
    await freezeAndNote(db, { ...subject, reason: wish.freeze_reason ?? noReason, acting });
    return;
  }
  if (acting.actor.type === 'api_key')
    throw new PurserError('insufficient_permissions', 'An API key may freeze, and never lifts a freeze: sign in.', {
      param: 'frozen',
    });
  await unfreezeAndNote(db, { ...subject, acting });
}
