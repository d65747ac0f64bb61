import type { Registry } from '../shared/chain/registry.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import type { RestoreFinding } from '../shared/domain/restore.ts';
import type { KeyRecord } from '../signer/client.ts';
import type { SignedPayment } from './list-signed.ts';
import { restoreTransfer } from './restore-payment.ts';
import { restoreX402 } from './restore-x402.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Ends a database transaction without effect. */
class OnlyLooked extends Error {
  readonly findings: readonly RestoreFinding[];
  constructor(findings: readonly RestoreFinding[]) {
    super('only looked');
    this.findings = findings;
  }
}

/**
 * Compares payments that the signers signed with the database, and stores what it lacks, each payment in a database
 * transaction of its own. Safe to repeat.
 * @param p.dryRun says what would be done, and does nothing
 */
export function createRestorePayments({
  pool,
  registry,
  clock,
}: {
  pool: Pool;
  registry: Registry;
  clock: (db: Queryable) => Promise<Date>;
}) {
  return function restorePayments({
    payments,
    keys,
    dryRun,
  }: {
    payments: readonly SignedPayment[];
    keys: readonly KeyRecord[];
    dryRun: boolean;
  }): Promise<RestoreFinding[]> {
    return withHeartbeat(async () => {
      const findings: RestoreFinding[] = [];
      for (const payment of payments) findings.push(...(await restoreOne({ payment, keys, dryRun })));
      return findings;
    });
  };

  async function restoreOne(p: {
    payment: SignedPayment;
    keys: readonly KeyRecord[];
    dryRun: boolean;
  }): Promise<readonly RestoreFinding[]> {
    const { payment, keys, dryRun } = p;
    const isX402 = payment.things[0]!.payload.kind === 'transfer-authorization';
    try {
      return await inTransaction(pool, async (db) => {
        const now = await clock(db);
        const found = await (isX402 ? restoreX402 : restoreTransfer)(db, { payment, keys, registry, now });
        if (dryRun) throw new OnlyLooked(found);
        return found;
      });
    } catch (error) {
      if (error instanceof OnlyLooked) return error.findings;
      throw error;
    }
  }
}
