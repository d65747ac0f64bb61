-- Up Migration

alter table accounts
  -- Whether a payment of an agent without any policy is denied.
  add column default_deny boolean not null default false,
  -- Whom built-in templates ask for approval.
  add column owner_email text;

-- What a payment takes from its agent's limits. One a payment; never more.
create table reservations (
  transaction_id text primary key references transactions,
  account_id     text not null references accounts,
  agent_id       text not null references agents,
  token          text not null,
  -- Amount in 10^-36 of the token, so that tokens of different decimals add up.
  atoms          numeric(114, 0) not null check (atoms > 0),
  -- An open one (reserved) counts at any age, a settled one by its instant, a released one never.
  state          text not null default 'reserved' check (state in ('reserved', 'settled', 'released')),
  -- The first evaluation, and from the second one on that.
  instant        timestamptz(3) not null,
  closed_at      timestamptz(3),
  constraint reservations_closed_agrees check ((state = 'reserved') = (closed_at is null))
);
create index reservations_settled on reservations (agent_id, token, instant) where state = 'settled';
create index reservations_open on reservations (agent_id) where state = 'reserved';

-- The sum of an agent's open reservations by token. A token that was ever used has its row.
create table usage_open (
  agent_id text not null references agents,
  token    text not null,
  atoms    numeric(114, 0) not null check (atoms >= 0),
  count    integer not null check (count >= 0),
  primary key (agent_id, token)
);

-- Sums of settled reservations by slots of time, in four lengths, so that any window is a few rows.
create table usage_totals (
  agent_id text not null references agents,
  token    text not null,
  level    smallint not null check (level between 0 and 3),
  -- Unix time of the instant in milliseconds, divided by 2^10, 2^16, 2^22 or 2^28.
  slot     bigint not null,
  atoms    numeric(114, 0) not null,
  count    integer not null,
  primary key (agent_id, token, level, slot)
);

-- What open payments may still take out of a wallet, by asset. Taken with the second evaluation.
create table holds (
  owner_id     text not null,
  wallet_id    text not null references wallets,
  chain        text not null,
  asset        text not null,
  amount_minor numeric(78, 0) not null check (amount_minor > 0),
  -- Block in which the money left: a balance read before that block does not show it yet.
  closed_block bigint,
  closed_at    timestamptz(3),
  primary key (owner_id, chain, asset)
);
create index holds_of_wallet on holds (wallet_id, chain, asset, closed_block);
create index holds_closed on holds (wallet_id, closed_at) where closed_at is not null;

-- A person is asked; one row for each policy that wants it.
create table approvals (
  id                 text primary key,
  account_id         text not null references accounts,
  agent_id           text not null references agents,
  transaction_id     text not null references transactions,
  -- No reference: the policy may be deleted, the question was asked.
  policy_id          text not null,
  threshold          text not null,
  required_approvals integer not null check (required_approvals > 0),
  approvers          text[] not null,
  status             text not null default 'pending'
    check (status in ('pending', 'approved', 'rejected', 'expired', 'cancelled')),
  expires_at         timestamptz(3) not null,
  created_at         timestamptz(3) not null default now(),
  decided_at         timestamptz(3),
  constraint approvals_decided_agrees check ((status = 'pending') = (decided_at is null))
);
create index approvals_by_transaction on approvals (transaction_id);
create unique index approvals_asked_once on approvals (transaction_id, policy_id) where status in ('pending', 'approved');

create table policy_templates (
  id          text primary key,
  account_id  text not null references accounts,
  name        text not null,
  description text,
  policies    jsonb not null,
  created_at  timestamptz(3) not null default now(),
  updated_at  timestamptz(3) not null default now(),
  constraint policy_templates_name_is_unique unique (account_id, name)
);
create index policy_templates_by_account on policy_templates (account_id, created_at desc, id desc);

-- What happened, as receivers are told. Written in the database transaction of the change that it reports.
create table events (
  id            text primary key,
  account_id    text not null references accounts,
  type          text not null,
  resource_type text not null,
  resource_id   text not null,
  agent_id      text references agents,
  data          jsonb not null,
  created_at    timestamptz(3) not null default now()
);
create index events_by_account on events (account_id, created_at desc, id desc);

-- Who did what, with what result. Rows are added and never changed.
create table audit_logs (
  id            text primary key,
  account_id    text not null references accounts,
  action        text not null,
  actor_type    text not null check (actor_type in ('user', 'api_key', 'approver', 'system')),
  actor_id      text,
  resource_type text not null,
  resource_id   text not null,
  agent_id      text references agents,
  result        text not null check (result in ('success', 'denied', 'error')),
  metadata      jsonb not null,
  created_at    timestamptz(3) not null default now()
);
create index audit_logs_by_account on audit_logs (account_id, created_at desc, id desc);

-- Payments of the version before: allowed ones have taken from their agents' limits.
insert into reservations (transaction_id, account_id, agent_id, token, atoms, state, instant, closed_at)
select t.id, t.account_id, t.agent_id, t.token, t.amount_minor * power(10::numeric, 36 - t.decimals),
       case t.status when 'pending' then 'reserved' when 'confirmed' then 'settled' else 'released' end,
       coalesce(s.created_at, t.created_at),
       case t.status when 'pending' then null else t.updated_at end
from transactions t left join slots s on s.transaction_id = t.id
where t.decision ->> 'outcome' = 'allow';

insert into usage_open (agent_id, token, atoms, count)
select agent_id, token, coalesce(sum(atoms) filter (where state = 'reserved'), 0), count(*) filter (where state = 'reserved')
from reservations group by agent_id, token;

insert into usage_totals (agent_id, token, level, slot, atoms, count)
select agent_id, token, level, floor(extract(epoch from instant) * 1000 / unit), sum(atoms), count(*)
from reservations cross join (values (0, 1024), (1, 65536), (2, 4194304), (3, 268435456)) as levels (level, unit)
where state = 'settled'
group by agent_id, token, level, floor(extract(epoch from instant) * 1000 / unit);

-- Payments in flight take their money from the wallet as well: amount and highest fee, as they were given out.
insert into holds (owner_id, wallet_id, chain, asset, amount_minor)
select t.id, t.wallet_id, t.chain, h.asset, sum(h.amount)
from transactions t join slots s on s.transaction_id = t.id
cross join lateral (values
  (t.asset, t.amount_minor),
  ('native', (s.payload #>> '{transaction,gas}')::numeric * (s.payload #>> '{transaction,maxFeePerGasWei}')::numeric)
) as h (asset, amount)
where t.status = 'pending' and h.amount > 0
group by t.id, t.wallet_id, t.chain, h.asset;

do $$
begin
  if exists (select from pg_roles where rolname = 'purser_app') then
    grant select, insert, update, delete
      on reservations, usage_open, usage_totals, holds, approvals, policy_templates to purser_app;
    grant select, insert on events, audit_logs to purser_app;
    -- What is granted by default goes further.
    revoke update, delete, truncate on events, audit_logs from purser_app;
  end if;
end
$$;
