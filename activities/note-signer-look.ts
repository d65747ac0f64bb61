import { accountsOfKeys } from '../shared/db/account-keys.ts';
import { bySystem, insertAudit } from '../shared/db/audit.ts';
import type { Clock } from '../shared/db/clock.ts';
import { markForgotten } from '../shared/db/freezes.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import {
  closeAlert,
  dropAlert,
  insertAlert,
  lastingAlerts,
  lockSignerAlerts,
  noteAlertSeen,
  untoldAlerts,
} from '../shared/db/signer-alerts.ts';
import { describeAlert } from '../shared/domain/describe-alert.ts';
import {
  type AlertChanges,
  compareAlerts,
  type SignerFinding,
  type SignerLook,
} from '../shared/domain/signer-alerts.ts';
import type { Logger } from '../shared/log.ts';
import { inertText } from './inert-text.ts';

/** Open alerts that a look's result names; the rest are counted. */
const maxNamed = 20;

/** How things stand after a look. */
export interface NotedLook {
  /** Open alerts, oldest first, the first of them in words. */
  readonly open: number;
  readonly named: readonly string[];
  /** Whether there is an alert, or the end of one, that nobody was told of. */
  readonly isUntold: boolean;
}

/**
 * Remembers what a look at the signers has found: opens alerts of what lasts, closes those of what is over, and tells the
 * log and the accounts whose keys they are about. Findings about keys that no account and no spare place has are nobody's
 * business, and may be made up. Repeating it changes nothing.
 */
export function createNoteSignerLook({ pool, clock, logger }: { pool: Pool; clock: Clock; logger: Logger }) {
  return async function noteSignerLook(look: SignerLook): Promise<NotedLook> {
    const changes = await inTransaction(pool, async (db) => {
      await lockSignerAlerts(db);
      const known = await lastingAlerts(db);
      const owners = await accountsOfKeys(db, { keyIds: keysIn([...look.findings, ...known]) });
      const findings = look.findings.filter(({ keyId }) => keyId === null || owners.has(keyId));
      const now = await clock(db);
      const found = compareAlerts(known, { look: { ...look, findings }, now });
      await store(db, found, { owners, now });
      return found;
    });
    // Then the signers are told again what is frozen.
    if (look.freezeVersion !== undefined) await markForgotten(pool, look.freezeVersion);
    tellLog(logger, changes);
    const open = (await lastingAlerts(pool)).filter(({ openedAt }) => openedAt !== null);
    return {
      open: open.length,
      named: open.slice(0, maxNamed).map((alert) => `${describeAlert(alert).title}: ${inertText(alert.detail)}.`),
      isUntold: (await untoldAlerts(pool, { limit: 1 })).length > 0,
    };
  };
}

const keysIn = (about: readonly { readonly keyId: string | null }[]) => [
  ...new Set(about.flatMap(({ keyId }) => keyId ?? [])),
];

async function store(
  db: Queryable,
  { found, seen, closed, dropped }: AlertChanges,
  { owners, now }: { owners: ReadonlyMap<string, string | null>; now: Date },
): Promise<void> {
  const audit = async (action: 'signer_alert.opened' | 'signer_alert.closed', id: string, finding: SignerFinding) => {
    const accountId = finding.keyId === null ? null : owners.get(finding.keyId);
    if (!accountId) return;
    const { kind, party, keyId, detail } = finding;
    await insertAudit(db, {
      ...{ accountId, action, acting: bySystem, resourceType: 'account_key', resourceId: keyId },
      result: action === 'signer_alert.opened' ? 'error' : 'success',
      metadata: { alert_id: id, kind, party, detail },
    });
  };
  for (const { opens, ...finding } of found) {
    const id = await insertAlert(db, { finding, opens, now });
    if (opens) await audit('signer_alert.opened', id, finding);
  }
  for (const { alert, detail, opens } of seen) {
    await noteAlertSeen(db, { id: alert.id, detail, opens, now });
    if (opens) await audit('signer_alert.opened', alert.id, { ...alert, detail });
  }
  for (const alert of closed) {
    await closeAlert(db, { id: alert.id, now });
    await audit('signer_alert.closed', alert.id, alert);
  }
  for (const { id } of dropped) await dropAlert(db, { id });
}

function tellLog(logger: Logger, { found, seen, closed }: AlertChanges): void {
  const opened = [...found, ...seen.map(({ alert, ...rest }) => ({ ...alert, ...rest }))].filter(({ opens }) => opens);
  for (const { kind, party, keyId, detail } of opened)
    logger.error({ alert: kind, party, keyId, detail }, describeAlert({ kind, party, keyId }).title);
  for (const { kind, party, keyId } of closed)
    logger.info({ alert: kind, party, keyId }, `over: ${describeAlert({ kind, party, keyId }).title}`);
}
