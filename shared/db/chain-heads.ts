import type { Queryable } from './pool.ts';

/** Notes the newest block of a chain. */
export async function storeHead(
  db: Queryable,
  { chain, number, hash }: { chain: string; number: number; hash: string },
): Promise<void> {
  await db.query(
    `insert into chain_heads (chain, number, hash) values ($1, $2, $3)
     on conflict (chain) do update set number = excluded.number, hash = excluded.hash, seen_at = now()`,
    [chain, number, hash],
  );
}
