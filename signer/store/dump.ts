import type { DatabaseSync } from 'node:sqlite';
import type { ShareSealing } from './sealing.ts';

const ROWS_MAX = 500;

export type DumpedRow = Record<string, string | number | null | Uint8Array>;

/** Everything in the store but the log of what was signed, as rows, for a backup. */
export interface DumpStore {
  /** Version of the schema that the rows are of. */
  schemaVersion(): number;
  /** Also those that were given up: a number that never falls. */
  countAllKeys(): number;
  keysWithShares(): string[];
  /** The run that made a share; undefined when there is no such share. */
  runOfShare(p: { keyId: string; epoch: number }): string | undefined;
  /**
   * The row of a key and those of its shares, each with the share itself, unsealed, as `share`: clear it after use.
   * Undefined when there is no such key any more, or no share of it.
   * @throws Refusal `share_damaged`
   */
  dumpKey(keyId: string): { key: DumpedRow; shares: DumpedRow[] } | undefined;
  /**
   * Pages of all other tables, and of keys without shares.
   * @param p.sinceMs only what was written from then on
   */
  dumpTables(p: { sinceMs: number | undefined }): Generator<{ table: string; rows: DumpedRow[] }>;
}

/** The log is for auditors, and grows without end; what decides over a signature stands in tables of its own. */
const NOT_DUMPED = new Set(['shares', 'signing_log']);

export function createDumpStore({ db, sealing }: { db: DatabaseSync; sealing: ShareSealing }): DumpStore {
  const version = db.prepare('pragma user_version');
  const withShares = db.prepare('select distinct key_id as "keyId" from shares order by key_id');
  const countKeys = db.prepare('select count(*) as n from keys');
  const selectRun = db.prepare('select session_id as run from shares where key_id = :keyId and epoch = :epoch');
  const selectKey = db.prepare('select * from keys where key_id = ?');
  const selectShares = db.prepare('select * from shares where key_id = ? order by epoch');
  const selectTables = db.prepare(
    `select name from sqlite_schema where type = 'table' and name not like 'sqlite%' order by name`,
  );

  function dumpShare(row: DumpedRow): DumpedRow {
    const { sealed_share: sealed, kek_id: kekId, ...rest } = row;
    const at = { keyId: rest.key_id as string, epoch: rest.epoch as number };
    const share = sealing.open(
      { sealed: sealed as Uint8Array, kekId: kekId as string },
      { ...at, engineVersion: rest.engine_version as string },
    );
    return { ...rest, share };
  }

  return {
    schemaVersion: () => (version.get() as { user_version: number }).user_version,
    countAllKeys: () => (countKeys.get() as { n: number }).n,
    keysWithShares: () => (withShares.all() as { keyId: string }[]).map(({ keyId }) => keyId),
    runOfShare: (p) => (selectRun.get(p) as { run: string } | undefined)?.run,
    dumpKey(keyId) {
      const key = selectKey.get(keyId) as DumpedRow | undefined;
      const shares = selectShares.all(keyId) as DumpedRow[];
      if (!key || shares.length === 0) return undefined;
      return { key: { ...key }, shares: shares.map(dumpShare) };
    },
    *dumpTables({ sinceMs }) {
      for (const { name } of selectTables.all() as { name: string }[]) {
        if (!NOT_DUMPED.has(name)) yield* dumpTable(db, { table: name, sinceMs });
      }
    },
  };
}

function* dumpTable(
  db: DatabaseSync,
  { table, sinceMs }: { table: string; sinceMs: number | undefined },
): Generator<{ table: string; rows: DumpedRow[] }> {
  const columns = db.prepare(`select name from pragma_table_info('${table}')`).all() as { name: string }[];
  const time = columns.find(({ name }) => name === 'at_ms' || name === 'created_at_ms')?.name;
  const conditions = [
    'rowid > :after',
    ...(table === 'keys' ? ['key_id not in (select key_id from shares)'] : []),
    ...(sinceMs !== undefined && time ? [`${time} >= ${sinceMs}`] : []),
  ];
  const select = db.prepare(
    `select rowid as "__rowid", * from ${table} where ${conditions.join(' and ')} order by rowid limit ${ROWS_MAX}`,
  );
  for (let after: unknown = 0; ; ) {
    const found = select.all({ after: after as number }) as DumpedRow[];
    const rows = found.map(({ __rowid: _, ...row }) => row);
    if (rows.length > 0) yield { table, rows };
    if (found.length < ROWS_MAX) return;
    after = found.at(-1)!.__rowid;
  }
}
