import pg from 'pg';

/** Every row of every table, as text, a table after the other. @param url of somebody who may read them all */
export async function readDatabaseAsText(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables
       where schemaname not in ('pg_catalog', 'information_schema') order by 1`,
    );
    const texts: string[] = [];
    for (const { name } of tables) {
      const { rows } = await client.query<{ row: string }>(`select t::text as row from ${name} t`);
      texts.push(`${name}\n`, ...rows.map(({ row }) => `${row}\n`));
    }
    return texts.join('');
  } finally {
    await client.end();
  }
}
