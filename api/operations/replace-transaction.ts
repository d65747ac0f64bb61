import { familyOf } from '../../shared/chain/families.ts';
import { lockAgent } from '../../shared/db/agents.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { currentFreeze } from '../../shared/db/freezes.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';
import { lockTransaction, putNotice, showTransaction, type TransactionRow } from '../../shared/db/transactions.ts';
import { describeFreeze } from '../../shared/domain/describe-freeze.ts';
import { PurserError } from '../../shared/errors.ts';
import { renderTransaction } from '../../shared/render-transaction.ts';
import { cancelPayment, type Standing, speedUpPayment } from '../../shared/replace-payment.ts';
import type { Once } from '../idempotency.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';

export interface ReplaceTransactionDependencies {
  readonly pool: Pool;
  readonly temporal: Pick<TemporalGateway, 'tellReplace'>;
}

const requests = {
  cancel: {
    work: cancelPayment,
    action: 'transaction.cancel_requested',
    code: 'transaction_not_cancellable',
    verb: 'cancelled',
  },
  speed_up: {
    work: speedUpPayment,
    action: 'transaction.speed_up_requested',
    code: 'transaction_not_replaceable',
    verb: 'sped up',
  },
} as const;

/**
 * Stores that a payment is to be cancelled or sped up, and tells its workflow. Whether that succeeds the chain decides.
 * @returns the payment as it is then, as on the wire
 * @throws PurserError 409 where it cannot be done (any more)
 */
export async function replaceTransaction(
  { pool, temporal }: ReplaceTransactionDependencies,
  { row, acting, wish, once }: { row: TransactionRow; acting: Acting; wish: keyof typeof requests; once: Once },
): Promise<unknown> {
  const { work, action, code, verb } = requests[wish];
  const { id, account_id: accountId, agent_id: agentId } = row;
  const answer = await inTransaction(pool, async (db) => {
    await once.claim(db, { resourceId: null });
    await lockAgent(db, { id: agentId });
    await lockTransaction(db, { id });
    const before = (await showTransaction(db, { id }))!;
    const standing = await work(db, row);
    if (!standing) await noteFreeze(db, row);
    const after = (await showTransaction(db, { id }))!;
    if (standing)
      throw new PurserError(code, `${explain(after, standing)}: it cannot be ${verb}.${because(after, standing)}`, {
        details: { transaction_id: id, status: after.status, status_detail: after.status_detail },
      });
    const shown = renderTransaction(after);
    await insertAudit(db, {
      accountId,
      agentId,
      action,
      acting,
      resourceType: 'transaction',
      resourceId: id,
      result: 'success',
      changes: { before: renderTransaction(before), after: shown },
    });
    await once.answer(db, shown);
    return shown;
  });
  await temporal.tellReplace(id);
  return answer;
}

/** What is to replace what was signed needs a signature as well: it waits for the end of a freeze. */
async function noteFreeze(db: Queryable, { id, account_id: accountId, agent_id: agentId }: TransactionRow) {
  const freeze = await currentFreeze(db, { accountId, agentId });
  if (freeze) await putNotice(db, { id, notice: describeFreeze(freeze) });
}

function explain({ id, status, block_number }: TransactionRow, standing: Standing): string {
  switch (standing) {
    case 'ended':
      return `Transaction ${id} is ${status} already`;
    case 'included':
      return `Transaction ${id} is in block ${block_number}, waiting for confirmations`;
    case 'irreplaceable':
      return `Transaction ${id} is signed`;
    case 'unsent':
      return `Transaction ${id} has not been sent yet`;
    case 'ending':
      return `Transaction ${id} is being cancelled`;
  }
}

/** What everybody has to know of the chain to understand it, as a further sentence. */
function because({ chain }: TransactionRow, standing: Standing): string {
  const reason = familyOf(chain).irreplaceable;
  return standing === 'irreplaceable' && reason !== undefined ? ` ${reason}` : '';
}
