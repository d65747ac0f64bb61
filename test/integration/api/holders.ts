import pg from 'pg';
import type { TestApi } from './harness.ts';

/** Tables that have a row in which a text stands, in whichever column. Looks at every table that there is. */
export async function holdersOf({ ownerUrl }: Pick<TestApi, 'ownerUrl'>, text: string): Promise<string[]> {
  const owner = new pg.Client({ connectionString: ownerUrl });
  await owner.connect();
  try {
    const { rows: tables } = await owner.query<{ name: string }>(
      `select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by 1`,
    );
    const holding: string[] = [];
    for (const { name } of tables) {
      const { rows } = await owner.query<{ found: boolean }>(
        `select exists (select from "${name}" t where strpos(row_to_json(t)::text, $1) > 0) as found`,
        [text],
      );
      if (rows[0]!.found) holding.push(name);
    }
    return holding;
  } finally {
    await owner.end();
  }
}
