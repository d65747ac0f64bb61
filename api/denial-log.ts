import type { Request, Response } from 'express';
import { type AuditActor, insertAudit } from '../shared/db/audit.ts';
import type { Pool } from '../shared/db/pool.ts';
import type { Logger } from '../shared/log.ts';
import { originOf } from './acting.ts';
import { loggedPath } from './middleware/logged-path.ts';

/** Entries a minute for each account and reason, in each process: whoever guesses without end must not fill the log. */
const maxPerMinute = 10;
const minuteMs = 60_000;
/** Accounts and reasons that are counted at once; of those beyond, the one that began first is counted anew. */
const maxCounted = 10_000;
const maxPathLength = 256;

/** A refusal that concerns an account which exists. */
export interface Denial {
  readonly accountId: string;
  readonly action: 'credential.denied' | 'permission.denied';
  readonly actor: AuditActor;
  /** One of a few words for each action; never what was sent. */
  readonly reason: string;
}

/** Notes a refusal; whatever comes of that, the request is answered as it would be. */
export type NoteDenial = (denial: Denial, asked: { request: Request; response: Response }) => Promise<void>;

/**
 * Notes in the audit log who was refused. What goes beyond the bound is left out: the next entry of the same kind tells
 * how many that were, and the access log has each.
 * @param now milliseconds
 */
export function createDenialLog({ pool, now = Date.now }: { pool: Pool; now?: () => number }): NoteDenial {
  const counts = new Map<string, { beganAt: number; written: number; leftOut: number }>();

  return async function noteDenial(denial, { request, response }) {
    const leftOut = admit(denial);
    if (leftOut === undefined) return;
    const { accountId, action, actor, reason } = denial;
    const { method, originalUrl } = request;
    const path = loggedPath(originalUrl).slice(0, maxPathLength);
    try {
      await insertAudit(pool, {
        accountId,
        action,
        acting: { actor, ...originOf(request, response) },
        resourceType: 'account',
        resourceId: accountId,
        result: 'denied',
        metadata: { reason, method, path, ...(leftOut > 0 && { left_out_before: leftOut }) },
      });
    } catch (error) {
      const log = response.locals.log as Logger;
      log.warn({ err: error, account_id: accountId, reason }, 'a refusal is missing in the audit log');
    }
  };

  /** @returns how many of the kind were left out before this one; undefined where this one is */
  function admit({ accountId, action, reason }: Denial): number | undefined {
    const key = `${accountId} ${action} ${reason}`;
    const before = counts.get(key);
    if (before && now() - before.beganAt < minuteMs) {
      if (before.written < maxPerMinute) {
        before.written += 1;
        return 0;
      }
      before.leftOut += 1;
      return undefined;
    }
    counts.delete(key);
    counts.set(key, { beganAt: now(), written: 1, leftOut: 0 });
    const oldest = counts.size > maxCounted ? counts.keys().next().value : undefined;
    if (oldest !== undefined) counts.delete(oldest);
    return before?.leftOut ?? 0;
  }
}
