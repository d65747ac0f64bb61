import pg from 'pg';
import { inject } from 'vitest';

/**
 * Runs statements as a superuser whom no trigger stops, in the database of this url: what somebody can do who has
 * everything.
 */
export async function asSuperuser(databaseUrl: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const url = new URL(inject('stack').superuserUrl);
  url.pathname = new URL(databaseUrl).pathname;
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  try {
    await client.query("set session_replication_role = 'replica'");
    await work(client);
  } finally {
    await client.end();
  }
}

/** The role that owns the tables, in the database of this url. */
export function ownerUrlOf(databaseUrl: string): string {
  const url = new URL(inject('stack').ownerUrl);
  url.pathname = new URL(databaseUrl).pathname;
  return url.href;
}
