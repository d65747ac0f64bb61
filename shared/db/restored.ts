import type { Decision } from '../domain/policy/engine.ts';
import type { Queryable } from './pool.ts';
import type { NewTransaction, TransactionRow } from './transactions.ts';

// What is written after a restore, when the signers know of payments that the database has lost.

/** A payment that the signers signed for was allowed, whatever the rules were. */
const allowed: Decision = { outcome: 'allow', violations: [], approvals: [], warnings: [] };

/** Stores a lost payment again, as one that was allowed and not sent yet. @param tx.createdAt when it was signed first */
export async function insertRestoredTransaction(
  db: Queryable,
  tx: NewTransaction & { decisionId: string; createdAt: Date },
): Promise<TransactionRow> {
  const { rows } = await db.query<TransactionRow>(
    `insert into transactions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor,
                               from_address, to_address, memo, status_detail, decision_id, decision, created_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'policy_check', $13, $14, $15)
     returning *`,
    [
      ...[tx.id, tx.accountId, tx.agentId, tx.walletId, tx.chain, tx.token, tx.asset, tx.decimals],
      ...[tx.amountMinor.toString(), tx.fromAddress, tx.toAddress, tx.memo ?? null],
      ...[tx.decisionId, JSON.stringify(allowed), tx.createdAt],
    ],
  );
  return rows[0]!;
}

/** The payment was allowed in the time that was lost; a question about it was answered then. */
export async function noteRestoredDecision(
  db: Queryable,
  { id, decisionId }: { id: string; decisionId: string },
): Promise<void> {
  await db.query(
    `update transactions set decision_id = coalesce(decision_id, $2), decision = coalesce(decision, $3), updated_at = now(),
            status_detail = case when status_detail in ('created', 'awaiting_approval') then 'policy_check' else status_detail end
     where id = $1 and status = 'pending'`,
    [id, decisionId, JSON.stringify(allowed)],
  );
}

/** Payments that have a nonce, or one of these coins, beside that one. */
export async function listHolders(
  db: Queryable,
  p: {
    walletId: string;
    chain: string;
    nonce: number | null;
    coins: readonly { txid: string; vout: number }[];
    exceptId: string;
  },
): Promise<{ id: string; is_signed: boolean }[]> {
  const { rows } = await db.query<{ id: string; is_signed: boolean }>(
    `select id, exists (select from attempts a where a.transaction_id = id) as is_signed from (
       select transaction_id as id from slots where wallet_id = $1 and chain = $2 and nonce = $3
       union
       select transaction_id from coins join unnest($4::text[], $5::integer[]) as given (txid, vout) using (txid, vout)
       where chain = $2) holders
     where id <> $6 order by id`,
    [
      ...[p.walletId, p.chain, p.nonce],
      ...[p.coins.map(({ txid }) => txid), p.coins.map(({ vout }) => vout), p.exceptId],
    ],
  );
  return rows;
}

/** A payment of which nothing was signed has no place any more, and is prepared anew. */
export async function giveUpPlace(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query('delete from slots where transaction_id = $1', [id]);
  await db.query(
    `update transactions set nonce = null, status_detail = 'policy_check', updated_at = now()
     where id = $1 and status = 'pending'`,
    [id],
  );
}

/** Puts a payment's place to what was signed last for it. */
export async function putRestoredSlot(
  db: Queryable,
  slot: {
    walletId: string;
    chain: string;
    nonce: number | null;
    coins: readonly { txid: string; vout: number }[];
    transactionId: string;
    payload: object;
    purpose: 'payment' | 'cancel';
    version: number;
    formerSlots: readonly string[];
    endMessage: string | null;
  },
): Promise<void> {
  await db.query(
    `insert into slots (wallet_id, chain, nonce, transaction_id, payload, purpose, version, former_slots, end_code, end_message)
     values ($1, $2, $3, $4, $5, $6, $7, $8, case when $9::text is not null then 'cancelled' end, $9)
     on conflict (transaction_id) do update
       set payload = excluded.payload, version = excluded.version, former_slots = excluded.former_slots, wanted = null,
           purpose = case when excluded.purpose = 'cancel' and slots.purpose <> 'payment' then slots.purpose
                          else excluded.purpose end,
           end_code = coalesce(slots.end_code, excluded.end_code),
           end_message = coalesce(slots.end_message, excluded.end_message)`,
    [
      ...[slot.walletId, slot.chain, slot.nonce, slot.transactionId, JSON.stringify(slot.payload), slot.purpose],
      ...[slot.version, [...slot.formerSlots], slot.endMessage],
    ],
  );
  const { chain, transactionId, coins } = slot;
  await db.query(
    `insert into coins (chain, txid, vout, transaction_id)
     select $1, txid, vout, $2 from unnest($3::text[], $4::integer[]) as given (txid, vout) on conflict do nothing`,
    [chain, transactionId, coins.map(({ txid }) => txid), coins.map(({ vout }) => vout)],
  );
}

/** A key of an account, with the children of it that the database knows as wallets. */
export interface KeyWithIndexes {
  readonly id: string;
  readonly account_id: string;
  readonly public_key: `0x${string}`;
  readonly chain_code: `0x${string}`;
  readonly next_index: number;
  readonly used: readonly number[];
}

/** Keys of accounts, in the order of their ids. */
export async function listKeysWithIndexes(
  db: Queryable,
  { after, limit }: { after: string; limit: number },
): Promise<KeyWithIndexes[]> {
  const { rows } = await db.query<KeyWithIndexes>(
    `select id, account_id, public_key, chain_code, next_index,
            array(select split_part(w.path, '/', 6)::int from wallets w where w.account_key_id = k.id) as used
     from account_keys k where account_id is not null and id > $1 order by id limit $2`,
    [after, limit],
  );
  return rows;
}

/** A wallet by its place, whoever's it is. */
export async function findWalletByPath(
  db: Queryable,
  { keyId, path }: { keyId: string; path: string },
): Promise<{ id: string; agent_id: string; address: string } | undefined> {
  const { rows } = await db.query<{ id: string; agent_id: string; address: string }>(
    'select id, agent_id, address from wallets where account_key_id = $1 and path = $2',
    [keyId, path],
  );
  return rows[0];
}

/** An account by the id that it had; its name and its settings are lost. */
export async function insertRestoredAccount(
  db: Queryable,
  { id, name, ownerKey }: { id: string; name: string; ownerKey: string | null },
): Promise<void> {
  await db.query(`insert into accounts (id, name, plan, owner_key) values ($1, $2, 'starter', $3)`, [
    id,
    name,
    ownerKey,
  ]);
}

/** An agent by the id that it had: it pays nothing until somebody activates it. */
export async function insertRestoredAgent(
  db: Queryable,
  { id, accountId, name, chain }: { id: string; accountId: string; name: string; chain: string },
): Promise<void> {
  await db.query(
    `insert into agents (id, account_id, agent_name, agent_description, status, chain)
     values ($1, $2, $3, 'Restored from the records of the signers: its name, its settings and its policies are lost.', 'inactive', $4)`,
    [id, accountId, name, chain],
  );
}

/** Gives a key to the account that it was given to before. @returns false where another account has it */
export async function giveKeyBack(
  db: Queryable,
  { keyId, accountId }: { keyId: string; accountId: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update account_keys set account_id = $2, retired_at = null where id = $1 and (account_id is null or account_id = $2)`,
    [keyId, accountId],
  );
  return rowCount === 1;
}

/** No child of a key at or below this index is given out (again). */
export async function raiseNextIndex(db: Queryable, { keyId, above }: { keyId: string; above: number }): Promise<void> {
  await db.query('update account_keys set next_index = greatest(next_index, $2) where id = $1', [keyId, above + 1]);
}

/**
 * Leaves a gap in the children of every key that has an account: those that were given out in the time that was lost are
 * among them, and no second wallet may have their addresses. Takes spare keys out of use for the same reason.
 * @returns ids of the accounts' keys and of the spare ones
 */
export async function secureKeys(
  db: Queryable,
  { skip, now }: { skip: number; now: Date },
): Promise<{ skipped: string[]; retired: string[] }> {
  const skipped = await db.query<{ id: string }>(
    'update account_keys set next_index = next_index + $1 where account_id is not null returning id',
    [skip],
  );
  const retired = await db.query<{ id: string }>(
    'update account_keys set retired_at = $1 where account_id is null and retired_at is null returning id',
    [now],
  );
  return { skipped: skipped.rows.map(({ id }) => id), retired: retired.rows.map(({ id }) => id) };
}

/**
 * When what was signed last was made, as far as the database knows: what was signed later is lost. Nothing else tells that:
 * requests, events and blocks are written after a restore as well, while all is frozen. Null where nothing was signed.
 */
export async function readNewestSigned(db: Queryable): Promise<Date | null> {
  const { rows } = await db.query<{ at: Date | null }>(
    `select greatest((select max(created_at) from attempts),
                     (select max(created_at) from x402_payments where auth_nonce is not null)) as at`,
  );
  return rows[0]!.at;
}

/** Open payments, so that each is visited at once. */
export async function forgetVisits(db: Queryable): Promise<void> {
  await db.query(
    `with payments as (update transactions set reconciled_at = null where status = 'pending'),
     sessions as (update x402_sessions set reconciled_at = null where released_at is null)
     update x402_payments set reconciled_at = null where status = 'pending' or settlement = 'unsettled'`,
  );
}

/** Sessions out of which an agent could pay so much at that time, by what the database knows. */
export async function listSessionsAt(
  db: Queryable,
  p: { walletId: string; chain: string; asset: string; at: Date; minor: bigint },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from x402_sessions
     where wallet_id = $1 and chain = $2 and lower(asset) = lower($3) and created_at <= $4 and expires_at > $4
       and coalesce(released_at, $4) >= $4 and spent_minor + $5 <= budget_minor`,
    [p.walletId, p.chain, p.asset, p.at, p.minor.toString()],
  );
  return rows.map(({ id }) => id);
}

/** Takes an amount out of a session's budget, also of one whose time is over. */
export async function takeFromBudget(db: Queryable, { id, minor }: { id: string; minor: bigint }): Promise<void> {
  await db.query('update x402_sessions set spent_minor = spent_minor + $2 where id = $1', [id, minor.toString()]);
}

/** A session in place of one that was lost, for one payment: over from its beginning. */
export async function insertRestoredSession(
  db: Queryable,
  s: {
    id: string;
    accountId: string;
    agentId: string;
    walletId: string;
    chain: string;
    token: string;
    asset: string;
    decimals: number;
    minor: bigint;
    at: Date;
  },
): Promise<void> {
  await db.query(
    `insert into x402_sessions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, budget_minor,
                                spent_minor, created_at, expires_at, released_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $10, $10, $10)`,
    [s.id, s.accountId, s.agentId, s.walletId, s.chain, s.token, s.asset, s.decimals, s.minor.toString(), s.at],
  );
}

/** The authorisation that was signed last for a payment, as handed out where there is a header for it. */
export async function putRestoredStamp(
  db: Queryable,
  p: {
    id: string;
    decisionId: string;
    nonce: string;
    validAfter: number;
    validBefore: number;
    formerNonces: readonly string[];
    isSigned: boolean;
    paymentSignature: string | null;
  },
): Promise<void> {
  await db.query(
    `update x402_payments set auth_nonce = $3, valid_after = $4, valid_before = $5, former_nonces = $6,
            settlement = 'unsettled', decision_id = coalesce(decision_id, $2), decision = coalesce(decision, $9),
            status = case when $7 then 'completed' else 'pending' end,
            status_detail = case when $7 then 'completed' else 'signing' end, payment_signature = $8,
            ending_code = null, ending_message = null, updated_at = now()
     where id = $1 and status = 'pending'`,
    [
      ...[p.id, p.decisionId, p.nonce, p.validAfter, p.validBefore, [...p.formerNonces]],
      ...[p.isSigned, p.paymentSignature, JSON.stringify(allowed)],
    ],
  );
}

/** Pending payments of which the database knows no signature, in the order of their ids, in words. */
export async function listUnsignedPending(
  db: Queryable,
  { after, limit }: { after: string; limit: number },
): Promise<{ id: string; words: string }[]> {
  const { rows } = await db.query<{ id: string; words: string }>(
    `select t.id, trim_scale(t.amount_minor / power(10::numeric, t.decimals)) || ' ' || t.token || ' on ' || t.chain
            || ' to ' || t.to_address as words
     from transactions t
     where t.status = 'pending' and t.id > $1 and not exists (select from attempts a where a.transaction_id = t.id)
     order by t.id limit $2`,
    [after, limit],
  );
  return rows;
}

/** Which of these are payments or sessions that the database has. */
export async function findKnownIds(db: Queryable, { ids }: { ids: readonly string[] }): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from unnest($1::text[]) as given (id)
     where exists (select from transactions t where t.id = given.id)
        or exists (select from x402_payments p where p.id = given.id)
        or exists (select from x402_sessions s where s.id = given.id)`,
    [ids],
  );
  return rows.map(({ id }) => id);
}

/** Whether the whole installation is frozen, and every signer has confirmed that. */
export async function isFrozenAndTold(db: Queryable): Promise<{ frozen: boolean; told: boolean }> {
  const { rows } = await db.query<{ frozen: boolean; told: boolean }>(
    `select exists (select from freezes where scope = 'installation') as frozen, told >= version as told from freeze_orders`,
  );
  return rows[0]!;
}

/** How many of these payments have come to which end, or to none. */
export async function countByStatus(
  db: Queryable,
  { ids }: { ids: readonly string[] },
): Promise<Record<string, number>> {
  const { rows } = await db.query<{ status: string; count: number }>(
    `select status, count(*)::int as count from (
       select status from transactions where id = any($1::text[])
       union all
       select coalesce(settlement, status) from x402_payments where id = any($1::text[])) each_payment
     group by status order by status`,
    [ids],
  );
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
}

/**
 * Of payments that were signed for, those that have to be looked at: all but transfers that have ended with a final
 * transaction and have stored signed bytes since they were signed for last.
 */
export async function findUnsure(
  db: Queryable,
  { payments }: { payments: readonly { id: string; lastAtMs: number }[] },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from unnest($1::text[], $2::double precision[]) with ordinality as given (id, last_ms, place)
     where not exists (
       select from transactions t where t.id = given.id and t.status <> 'pending'
         and exists (select from attempts a where a.transaction_id = t.id and a.final_at is not null)
         and (select max(a.created_at) from attempts a where a.transaction_id = t.id) >= to_timestamp(last_ms / 1000))
     order by place`,
    [payments.map(({ id }) => id), payments.map(({ lastAtMs }) => lastAtMs)],
  );
  return rows.map(({ id }) => id);
}
