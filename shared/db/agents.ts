import type { ShownFreeze } from './freezes.ts';
import type { Queryable } from './pool.ts';

export type AgentStatus = 'active' | 'inactive';

/** An agent with its wallet. */
export interface AgentRow {
  readonly id: string;
  readonly account_id: string;
  readonly agent_name: string;
  readonly agent_description: string | null;
  readonly metadata: string | null;
  readonly status: AgentStatus;
  readonly chain: string;
  readonly created_at: Date;
  /** The widest freeze of it, if any. */
  readonly freeze: ShownFreeze | null;
  readonly wallet_id: string;
  readonly address: string;
}

export interface NewAgent {
  readonly id: string;
  readonly accountId: string;
  readonly agentName: string;
  readonly agentDescription: string | undefined;
  readonly metadata: string | undefined;
  readonly chain: string;
}

/** Stores an agent; its wallet follows in the same database transaction. A taken name violates `agents_name_is_unique`. */
export async function insertAgent(db: Queryable, agent: NewAgent): Promise<void> {
  await db.query(
    `insert into agents (id, account_id, agent_name, agent_description, metadata, chain) values ($1, $2, $3, $4, $5, $6)`,
    [agent.id, agent.accountId, agent.agentName, agent.agentDescription ?? null, agent.metadata ?? null, agent.chain],
  );
}

export async function insertWallet(
  db: Queryable,
  wallet: { id: string; agentId: string; accountKeyId: string; path: string; address: string },
): Promise<void> {
  await db.query('insert into wallets (id, agent_id, account_key_id, path, address) values ($1, $2, $3, $4, $5)', [
    wallet.id,
    wallet.agentId,
    wallet.accountKeyId,
    wallet.path,
    wallet.address,
  ]);
}

export async function isAgentNameTaken(
  db: Queryable,
  { accountId, agentName }: { accountId: string; agentName: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    'select from agents where account_id = $1 and agent_name = $2 and deleted_at is null',
    [accountId, agentName],
  );
  return rowCount !== 0;
}

const freezeOf = `(select to_jsonb(f) from freezes f
  where f.scope = 'installation' or (f.scope = 'account' and f.account_id = agents.account_id)
    or (f.scope = 'agent' and f.agent_id = agents.id)
  order by array_position(array['installation', 'account', 'agent'], f.scope) limit 1)`;
const withWallet = `select agents.*, wallets.id as wallet_id, wallets.address, ${freezeOf} as freeze
  from agents join wallets on wallets.agent_id = agents.id`;

const present = `${withWallet} where agents.id = $1 and agents.account_id = $2 and agents.deleted_at is null`;

/** The agent, if it is this account's and was not deleted. */
export async function findAgent(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<AgentRow | undefined> {
  const { rows } = await db.query<AgentRow>(present, [id, accountId]);
  return rows[0];
}

/** The same, and it stays until the database transaction ends, for what is to refer to it. Others may change it meanwhile. */
export async function shareAgent(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<AgentRow | undefined> {
  const { rows } = await db.query<AgentRow>(`${present} for key share of agents`, [id, accountId]);
  return rows[0];
}

/** Whether the account has this agent, or had it: what it did can still be listed. */
export async function hasOrHadAgent(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<boolean> {
  const { rowCount } = await db.query('select from agents where id = $1 and account_id = $2', [id, accountId]);
  return rowCount === 1;
}

export interface AgentFilter {
  readonly accountId: string;
  /** The only one that is looked for. */
  readonly id?: string | undefined;
  readonly status?: AgentStatus | undefined;
  readonly chain?: string | undefined;
}

const filtered = `agents.account_id = $1 and agents.deleted_at is null and ($2::text is null or agents.status = $2)
  and ($3::text is null or agents.chain = $3) and ($4::text is null or agents.id = $4)`;
const filterOf = ({ accountId, status, chain, id }: AgentFilter) => [
  accountId,
  status ?? null,
  chain ?? null,
  id ?? null,
];

/** One page, newest first; rows of one instant are ordered by id, so that pages never overlap. */
export async function listAgents(
  db: Queryable,
  { limit, offset, ...filter }: AgentFilter & { limit: number; offset: number },
): Promise<AgentRow[]> {
  const { rows } = await db.query<AgentRow>(
    `${withWallet} where ${filtered} order by agents.created_at desc, agents.id desc limit $5 offset $6`,
    [...filterOf(filter), limit, offset],
  );
  return rows;
}

export async function countAgents(db: Queryable, filter: AgentFilter): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from agents where ${filtered}`,
    filterOf(filter),
  );
  return rows[0]!.count;
}

/** What is looked at of an agent under its lock. */
interface LockedAgent {
  readonly id: string;
  /** Of a deleted one: `inactive`. */
  readonly status: AgentStatus;
  readonly chain: string;
  readonly is_deleted: boolean;
}

/**
 * The agent's status, whoever's it is, locked until the database transaction ends. The first lock of every writer.
 * `no key`: a new payment only refers to the agent, and need not wait for one that is being judged.
 */
export async function lockAgent(db: Queryable, { id }: { id: string }): Promise<LockedAgent | undefined> {
  const { rows } = await db.query<LockedAgent>(
    'select id, status, chain, deleted_at is not null as is_deleted from agents where id = $1 for no key update',
    [id],
  );
  return rows[0];
}

/** The same lock, and one that also waits for new payments that refer to the agent, and lets them wait. For its deletion. */
export async function lockAgentWhole(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query('select from agents where id = $1 for update', [id]);
}

/** Sets the status, unless the agent has it already. @returns whether it changed */
export async function updateAgentStatus(
  db: Queryable,
  { id, accountId, status }: { id: string; accountId: string; status: AgentStatus },
): Promise<boolean> {
  const { rowCount } = await db.query(
    'update agents set status = $3 where id = $1 and account_id = $2 and status <> $3 and deleted_at is null',
    [id, accountId, status],
  );
  return rowCount === 1;
}

/** What may be changed of an agent; what is undefined stays as it is. */
export interface AgentChange {
  readonly agentName?: string | undefined;
  readonly agentDescription?: string | null | undefined;
  readonly metadata?: string | null | undefined;
}

/** Changes what people read of an agent, if it was not deleted. A taken name violates `agents_name_is_unique`. */
export async function updateAgent(
  db: Queryable,
  { id, accountId, change }: { id: string; accountId: string; change: AgentChange },
): Promise<void> {
  const { agentName, agentDescription, metadata } = change;
  await db.query(
    `update agents set agent_name = coalesce($3, agent_name),
       agent_description = case when $4 then $5 else agent_description end,
       metadata = case when $6 then $7 else metadata end
     where id = $1 and account_id = $2 and deleted_at is null`,
    [
      ...[id, accountId, agentName ?? null],
      ...[agentDescription !== undefined, agentDescription ?? null, metadata !== undefined, metadata ?? null],
    ],
  );
}

/** Hides the agent and has it pay nothing any more. Hold its whole lock, and see before that it has nothing left. */
export async function markAgentDeleted(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query(`update agents set status = 'inactive', deleted_at = now() where id = $1 and deleted_at is null`, [
    id,
  ]);
}

export interface WalletRow {
  readonly id: string;
  readonly agent_id: string;
  readonly account_key_id: string;
  /** BIP-32 path without hardened steps. */
  readonly path: string;
  readonly address: string;
}

/** The wallet, locked until the database transaction ends. The last lock of every writer. */
export async function lockWallet(db: Queryable, { id }: { id: string }): Promise<WalletRow | undefined> {
  const { rows } = await db.query<WalletRow>('select * from wallets where id = $1 for no key update', [id]);
  return rows[0];
}
