import pg from 'pg';

/** What a statement needs: a pool, or the client that holds a database transaction. */
export type Queryable = Pick<pg.ClientBase, 'query'>;
export type Pool = pg.Pool;

/**
 * The process's connection pool. Statements are cut off after 30 s, so that a stuck one never holds a lock for ever.
 * @param url postgres URL
 * @param max connections at most
 */
export function createPool({ url, max = 10, application }: { url: string; max?: number; application: string }): Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    application_name: application,
    connectionTimeoutMillis: 5_000,
    statement_timeout: 30_000,
    idle_in_transaction_session_timeout: 30_000,
    keepAlive: true,
  });
  // An idle connection that breaks (Postgres restarts) is replaced at the next use; without a listener it ends the process.
  pool.on('error', () => {});
  // Likewise one that breaks while it is lent, between two statements: the next statement says so to whoever has it.
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

/** Runs `work` in one database transaction: all of it is kept, or none. */
export async function inTransaction<T>(pool: Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query('begin');
    const result = await work(client);
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback').catch((rollbackError: Error) => {
      broken = rollbackError;
    });
    throw error;
  } finally {
    client.release(broken);
  }
}

/** The name of the unique constraint that a statement ran into, if that is what the error says. */
export function violatedConstraint(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError && error.code === '23505' ? error.constraint : undefined;
}

/** Whether a statement was cut off, as one that waits too long for a lock. */
export function isCancelled(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '57014';
}

/** Whether an error means that Postgres cannot be reached or is going down, so that a repeat may succeed. */
export function isConnectionError(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(08|57P|53)/.test(error.code ?? '');
  const code = (error as { code?: string } | null)?.code ?? '';
  if (['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENOTFOUND', 'ETIMEDOUT', 'ENOENT'].includes(code)) return true;
  return (
    error instanceof Error &&
    /Connection terminated|is not queryable|timeout exceeded when trying to connect/.test(error.message)
  );
}
