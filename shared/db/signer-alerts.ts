import type { AlertKind, PartyNumber, SignerAlert, SignerFinding } from '../domain/signer-alerts.ts';
import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

/** Something that was found to be wrong with the signers. */
export interface SignerAlertRow {
  readonly id: string;
  readonly kind: AlertKind;
  readonly party: PartyNumber | null;
  readonly key_id: string | null;
  /** Of a signer, perhaps: data. */
  readonly detail: string;
  readonly found_at: Date;
  readonly seen_at: Date;
  readonly opened_at: Date | null;
  readonly closed_at: Date | null;
  readonly opening_told_at: Date | null;
  readonly closing_told_at: Date | null;
}

/** Has whoever else changes alerts wait until this database transaction ends. */
export async function lockSignerAlerts(db: Queryable): Promise<void> {
  await db.query(`select pg_advisory_xact_lock(hashtext('signer alerts'))`);
}

/** Everything that lasts, told or not, oldest first. */
export async function lastingAlerts(db: Queryable): Promise<SignerAlert[]> {
  const { rows } = await db.query<SignerAlertRow>(
    'select * from signer_alerts where closed_at is null order by found_at, id',
  );
  return rows.map(({ id, kind, party, key_id, detail, found_at, seen_at, opened_at }) => ({
    ...{ id, kind, party, keyId: key_id, detail, foundAt: found_at, seenAt: seen_at, openedAt: opened_at },
  }));
}

/** Notes what is new. @returns its id */
export async function insertAlert(
  db: Queryable,
  { finding, opens, now }: { finding: SignerFinding; opens: boolean; now: Date },
): Promise<string> {
  const { kind, party, keyId, detail } = finding;
  const id = newId('alrt');
  await db.query(
    `insert into signer_alerts (id, kind, party, key_id, detail, found_at, seen_at, opened_at)
     values ($1, $2, $3, $4, $5, $6, $6, $7)`,
    [id, kind, party, keyId, detail, now, opens ? now : null],
  );
  return id;
}

/** Notes that an alert was found again. */
export async function noteAlertSeen(
  db: Queryable,
  { id, detail, opens, now }: { id: string; detail: string; opens: boolean; now: Date },
): Promise<void> {
  await db.query(
    `update signer_alerts set detail = $2, seen_at = $3, opened_at = case when $4 then $3 else opened_at end
     where id = $1`,
    [id, detail, now, opens],
  );
}

export async function closeAlert(db: Queryable, { id, now }: { id: string; now: Date }): Promise<void> {
  await db.query('update signer_alerts set closed_at = $2 where id = $1', [id, now]);
}

/** Forgets what went away before anybody was told. */
export async function dropAlert(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query('delete from signer_alerts where id = $1 and opened_at is null', [id]);
}

/** Alerts whose beginning or end nobody has been told of, oldest first. */
export async function untoldAlerts(db: Queryable, { limit }: { limit: number }): Promise<SignerAlertRow[]> {
  const { rows } = await db.query<SignerAlertRow>(
    `select * from signer_alerts
     where (opened_at is not null and opening_told_at is null) or (closed_at is not null and closing_told_at is null)
     order by found_at, id limit $1`,
    [limit],
  );
  return rows;
}

/** Notes that somebody was told: of the beginnings of alerts, and of the ends of those that had one. */
export async function noteAlertsTold(db: Queryable, { told }: { told: readonly SignerAlertRow[] }): Promise<void> {
  const over = told.filter(({ closed_at }) => closed_at !== null);
  await db.query(
    `update signer_alerts set opening_told_at = coalesce(opening_told_at, now()),
            closing_told_at = case when id = any($2::text[]) then now() else closing_told_at end
     where id = any($1::text[])`,
    [told.map(({ id }) => id), over.map(({ id }) => id)],
  );
}

/** Deletes alerts that have been over for some months. @returns how many */
export async function deleteOldAlerts(
  db: Queryable,
  { keepMonths, limit }: { keepMonths: number; limit: number },
): Promise<number> {
  const { rowCount } = await db.query(
    `delete from signer_alerts where id in (
       select id from signer_alerts where closed_at < now() - make_interval(months => $1) order by closed_at limit $2)`,
    [keepMonths, limit],
  );
  return rowCount!;
}
