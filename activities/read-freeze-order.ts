import type { Clock } from '../shared/db/clock.ts';
import { markTold, readFreezes } from '../shared/db/freezes.ts';
import type { Pool } from '../shared/db/pool.ts';
import { fitFreezes, signFreezeOrder } from '../shared/freeze-order.ts';
import type { Logger } from '../shared/log.ts';
import type { PolicyKey } from './issue-receipt.ts';

/** What signers are to be told. */
export interface FreezeOrder {
  readonly version: number;
  /** Compact JWS by the policy step; see shared/freeze-order.ts. */
  readonly order: string;
}

/** Everything that is frozen now, as an order for the signers: whole, so that a lost one heals with the next. */
export function createReadFreezeOrder({
  pool,
  clock,
  policyKey,
  logger,
}: {
  pool: Pool;
  clock: Clock;
  policyKey: PolicyKey;
  logger: Logger;
}) {
  return async function readFreezeOrder(): Promise<FreezeOrder> {
    const { state, leftOut } = fitFreezes(await readFreezes(pool));
    if (leftOut > 0)
      logger.error(
        { left_out: leftOut },
        'more is frozen than signers can be told: the rest is held by the database alone',
      );
    return { version: state.version, order: await signFreezeOrder(policyKey, { state, now: await clock(pool) }) };
  };
}

/** Notes that all three signers have a version on disk. */
export function createMarkFreezeTold({ pool }: { pool: Pool }) {
  return async function markFreezeTold(version: number): Promise<void> {
    await markTold(pool, version);
  };
}
