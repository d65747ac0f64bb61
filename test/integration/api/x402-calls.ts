import { expect } from 'vitest';
import { lockWallet } from '../../../shared/db/agents.ts';
import { inTransaction, type Pool } from '../../../shared/db/pool.ts';
import { insertSession, type SessionRow } from '../../../shared/db/x402-sessions.ts';
import { newId } from '../../../shared/ids.ts';
import { holdRest } from '../../../shared/x402-budget.ts';
import { startTarget, type TestTarget } from '../../support/target.ts';
import { recipient, type TestAccount, type TestApi, usdcContract } from './harness.ts';

/** An offer of a target for test USDC on the local chain. */
export const offer = (changes: Record<string, unknown> = {}) => ({
  scheme: 'exact',
  network: 'eip155:31337',
  amount: '10000',
  asset: usdcContract,
  payTo: recipient,
  maxTimeoutSeconds: 60,
  extra: { name: 'USD Coin', version: '2' },
  ...changes,
});

/** What a target of version 2 answers with. */
export function paymentRequired(offers: readonly unknown[], more: Record<string, unknown> = {}) {
  const document = { x402Version: 2, resource: null, accepts: offers, extensions: {}, ...more };
  return { 'payment-required': Buffer.from(JSON.stringify(document)).toString('base64') };
}

/** A target that wants, at each path, so many minor units as the path says: `/10000` is a cent. */
export function startShop({ asset = usdcContract }: { asset?: string } = {}): Promise<TestTarget> {
  return startTarget((request, response) => {
    const amount = request.url!.match(/\d+/)?.[0];
    if (amount === undefined) response.writeHead(200).end('free');
    else response.writeHead(402, paymentRequired([offer({ amount, asset })])).end();
  });
}

/** A session whose budget nobody has compared with a balance. */
export async function openSession(
  { pool }: Pick<TestApi, 'pool'>,
  {
    account,
    agentId,
    budgetMinor = 1_000_000n,
    allowedUrls,
    ttlSeconds = 3600,
  }: {
    account: TestAccount;
    agentId: string;
    budgetMinor?: bigint;
    allowedUrls?: readonly string[];
    ttlSeconds?: number;
  },
): Promise<SessionRow> {
  const { rows } = await pool.query<{ id: string }>('select id from wallets where agent_id = $1', [agentId]);
  const walletId = rows[0]!.id;
  return inTransaction(pool, async (db) => {
    await lockWallet(db, { id: walletId });
    const session = await insertSession(db, {
      ...{ id: newId('sess'), accountId: account.id, agentId, walletId },
      ...{ chain: 'eip155:31337', token: 'USDC', asset: usdcContract, decimals: 6 },
      ...{ budgetMinor, allowedUrls, ttlSeconds },
    });
    await holdRest(db, { sessionId: session.id });
    return session;
  });
}

/** Has a session's time be over, as far as the clock is concerned. */
export async function expire({ pool }: Pick<TestApi, 'pool'>, { id }: { id: string }): Promise<void> {
  await pool.query(
    `update x402_sessions set created_at = created_at - interval '1 day', expires_at = clock_timestamp() where id = $1`,
    [id],
  );
}

interface Books {
  readonly budget: bigint;
  readonly spent: bigint;
  readonly isOpen: boolean;
  /** What the session still holds of the wallet. */
  readonly held: bigint;
  readonly payments: readonly {
    readonly id: string;
    readonly status: string;
    readonly settlement: string | null;
    readonly minor: bigint;
    readonly fee: bigint;
    readonly held: bigint | null;
    readonly reservation: string | null;
  }[];
}

async function readBooks(pool: Pool, sessionId: string): Promise<Books> {
  const { rows } = await pool.query<{
    budget: string;
    spent: string;
    is_open: boolean;
    held: string;
    payments: Record<'id' | 'status' | 'settlement' | 'minor' | 'fee' | 'held' | 'reservation', string | null>[] | null;
  }>(
    `select budget_minor as budget, spent_minor as spent, released_at is null as is_open,
            coalesce((select sum(amount_minor) from holds where owner_id = s.id), 0) as held,
            (select json_agg(json_build_object('id', p.id, 'status', p.status, 'settlement', p.settlement,
                       'minor', p.amount_minor::text, 'fee', p.fee_minor::text, 'held', h.amount_minor::text,
                       'reservation', r.state))
             from x402_payments p left join holds h on h.owner_id = p.id and h.closed_block is null
             left join reservations r on r.payment_id = p.id where p.session_id = s.id) as payments
     from x402_sessions s where id = $1`,
    [sessionId],
  );
  const { budget, spent, is_open: isOpen, held, payments } = rows[0]!;
  return {
    budget: BigInt(budget),
    spent: BigInt(spent),
    isOpen,
    held: BigInt(held),
    payments: (payments ?? []).map((each) => ({
      id: each.id!,
      status: each.status!,
      settlement: each.settlement,
      minor: BigInt(each.minor!),
      fee: BigInt(each.fee!),
      held: each.held === null ? null : BigInt(each.held),
      reservation: each.reservation,
    })),
  };
}

/** Sees that budget, holds and limits of a session and its payments agree with each other. */
export async function expectBalancedBooks({ pool }: Pick<TestApi, 'pool'>, sessionId: string): Promise<Books> {
  const books = await readBooks(pool, sessionId);
  let spent = 0n;
  for (const { id, status, settlement, minor, fee, held, reservation } of books.payments) {
    const isOpen = status === 'pending' || settlement === 'unsettled';
    const isLost = status === 'failed' || settlement === 'expired';
    if (!isLost) spent += minor + fee;
    expect([id, held]).toEqual([id, isOpen ? minor + fee : null]);
    if (isOpen) expect([id, reservation]).toEqual([id, 'reserved']);
    else if (isLost) expect([id, reservation]).not.toEqual([id, 'reserved']);
  }
  expect(books.spent).toBe(spent);
  expect(books.held).toBe(books.isOpen ? books.budget - spent : 0n);
  return books;
}
