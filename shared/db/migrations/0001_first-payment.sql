-- Up Migration

-- Times carry milliseconds, because that is what the wire shows: what sorts equal there sorts equal here.

create table accounts (
  id         text primary key,
  name       text not null,
  plan       text not null check (plan in ('starter', 'growth', 'enterprise')),
  created_at timestamptz(3) not null default now()
);

create table api_keys (
  id           text primary key,
  account_id   text not null references accounts,
  name         text not null,
  prefix       text not null,
  -- SHA-256 of the whole key; the key itself is never stored.
  hash         bytea not null unique,
  created_at   timestamptz(3) not null default now(),
  last_used_at timestamptz(3)
);
create index api_keys_by_account on api_keys (account_id, created_at desc, id desc);

-- Only keys that all three signers have stored and read back. A row without account is a spare.
create table account_keys (
  id         text primary key,
  account_id text unique references accounts,
  public_key text not null,
  chain_code text not null,
  next_index integer not null default 0,
  created_at timestamptz(3) not null default now()
);
create index account_keys_spare on account_keys (created_at) where account_id is null;

create table agents (
  id                text primary key,
  account_id        text not null references accounts,
  agent_name        text not null,
  agent_description text,
  metadata          text,
  status            text not null default 'active' check (status in ('active', 'inactive')),
  chain             text not null,
  created_at        timestamptz(3) not null default now(),
  constraint agents_name_is_unique unique (account_id, agent_name)
);
create index agents_by_account on agents (account_id, created_at desc, id desc);

create table wallets (
  id             text primary key,
  agent_id       text not null unique references agents,
  account_key_id text not null references account_keys,
  path           text not null,
  address        text not null,
  constraint wallets_path_is_unique unique (account_key_id, path)
);
create index wallets_by_address on wallets (address);

create table policies (
  id         text primary key,
  account_id text not null references accounts,
  agent_id   text not null references agents,
  type       text not null,
  rules      jsonb not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
create index policies_by_account on policies (account_id, created_at desc, id desc);
create index policies_by_agent on policies (agent_id, created_at desc, id desc);

create table transactions (
  id              text primary key,
  account_id      text not null references accounts,
  agent_id        text not null references agents,
  wallet_id       text not null references wallets,
  chain           text not null,
  token           text not null,
  -- 'native', or the token's contract; with decimals fixed at the time of the request.
  asset           text not null,
  decimals        smallint not null,
  amount_minor    numeric(78, 0) not null check (amount_minor > 0),
  from_address    text not null,
  to_address      text not null,
  memo            text,
  status          text not null default 'pending' check (status in ('pending', 'confirmed', 'failed')),
  status_detail   text not null default 'created' check (status_detail in
    ('created', 'policy_check', 'awaiting_approval', 'signing', 'broadcast', 'confirming', 'confirmed', 'failed')),
  failure_code    text,
  failure_message text,
  -- The stored answer of the first evaluation: a repeat returns it instead of judging again.
  decision_id     text,
  decision        jsonb,
  nonce           bigint,
  hash            text,
  fee_minor       numeric(78, 0),
  block_number    bigint,
  confirmations   integer not null default 0,
  -- Since when the payment waits for a free nonce of its wallet.
  waiting_since   timestamptz(3),
  -- When it was told that one may be free; nobody else is told for its sake until it waits again.
  woken_at        timestamptz(3),
  -- When the reconcile schedule last made sure that a workflow follows this row.
  reconciled_at   timestamptz(3),
  created_at      timestamptz(3) not null default now(),
  updated_at      timestamptz(3) not null default now(),
  constraint transactions_end_agrees check (
    (status = 'failed') = (status_detail = 'failed') and (status = 'confirmed') = (status_detail = 'confirmed')
    and (status = 'failed') = (failure_code is not null))
);
create index transactions_by_account on transactions (account_id, created_at desc, id desc);
create index transactions_by_agent on transactions (agent_id, created_at desc, id desc);
create index transactions_by_status on transactions (account_id, status, created_at desc, id desc);
create index transactions_open on transactions (reconciled_at nulls first, id) where status = 'pending';
create index transactions_waiting on transactions (wallet_id, chain, waiting_since, id)
  where waiting_since is not null and woken_at is null;

-- One nonce, one slot; one payment, one slot.
create table slots (
  wallet_id      text not null references wallets,
  chain          text not null,
  nonce          bigint not null check (nonce >= 0),
  transaction_id text not null unique references transactions,
  -- What the signers are asked to sign, complete: a repeat asks for the very same.
  payload        jsonb not null,
  -- Set once nothing can be mined at this nonce any more but what was.
  closed_at      timestamptz(3),
  created_at     timestamptz(3) not null default now(),
  primary key (wallet_id, chain, nonce)
);
create index slots_open on slots (wallet_id, chain) where closed_at is null;

-- Every signed transaction, stored before its bytes are sent.
create table attempts (
  chain          text not null,
  hash           text not null,
  transaction_id text not null references transactions,
  raw            text not null,
  created_at     timestamptz(3) not null default now(),
  sent_at        timestamptz(3),
  -- The block that holds it, as last seen; cleared by a reorg.
  block_number   bigint,
  block_hash     text,
  succeeded      boolean,
  fee_minor      numeric(78, 0),
  -- Set at the chain's confirmation depth; from then on the three above are true for good.
  final_at       timestamptz(3),
  primary key (chain, hash)
);
create index attempts_by_transaction on attempts (transaction_id);
create index attempts_open on attempts (chain, created_at) where final_at is null;

-- The newest block the watcher has seen, so that confirmations can be shown without asking a node.
create table chain_heads (
  chain      text primary key,
  number     bigint not null,
  hash       text not null,
  seen_at    timestamptz(3) not null default now()
);

-- The services' role may read and write rows; it cannot change the schema.
do $$
begin
  if exists (select from pg_roles where rolname = 'purser_app') then
    grant select, insert, update, delete on all tables in schema public to purser_app;
    revoke insert, update, delete on pgmigrations from purser_app;
  end if;
end
$$;
