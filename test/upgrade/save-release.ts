import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';

/** Hash of a migration's text, as in the first lines of a dump. */
export function hashMigration(dir: string, name: string): string {
  return createHash('sha256')
    .update(readFileSync(join(dir, `${name}.sql`)))
    .digest('hex');
}

/**
 * Writes what a released version left in its database as SQL: which migrations made its tables (they are its schema: their
 * hashes hold them to what was released), then all rows.
 * @param databaseUrl of the superuser, in the database of the service
 * @param dir the release's folder of migrations
 */
export async function saveRelease(o: { databaseUrl: string; dir: string; file: string }): Promise<void> {
  const names = readdirSync(o.dir).map((file) => file.replace(/\.sql$/, ''));
  const client = new pg.Client({ connectionString: o.databaseUrl });
  await client.connect();
  try {
    // All of one moment.
    await client.query('begin isolation level repeatable read read only');
    const { rows: tables } = await client.query<{ name: string; columns: string }>(
      `select relname as name, string_agg(quote_ident(attname), ', ' order by attnum) as columns
       from pg_class join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped and attgenerated = ''
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
         and relname <> 'pgmigrations' group by relname order by relname`,
    );
    const parts = names.sort().map((name) => `-- migration ${name} ${hashMigration(o.dir, name)}\n`);
    for (const { name, columns } of tables) {
      const { rows } = await client.query<{ row: string }>(
        `select to_jsonb(t)::text as row from ${name} t order by t::text`,
      );
      if (rows.length === 0) continue;
      parts.push(
        `insert into ${name} (${columns}) overriding system value\nselect ${columns} from jsonb_populate_recordset(null::${name}, $rows$[\n`,
        rows.map(({ row }) => row).join(',\n'),
        '\n]$rows$);\n',
      );
    }
    writeFileSync(o.file, parts.join(''));
  } finally {
    await client.end();
  }
}
