-- Up Migration

-- What is frozen: nothing new is signed for it until the row is gone. At most one row each for the installation, an account
-- and an agent.
create table freezes (
  id         text primary key,
  scope      text not null check (scope in ('installation', 'account', 'agent')),
  account_id text references accounts,
  agent_id   text references agents,
  reason     text not null,
  -- Who did it, as in the audit log.
  frozen_by  text not null,
  created_at timestamptz(3) not null default now(),
  constraint freezes_name_what_they_freeze check (
    (scope = 'installation') = (account_id is null) and (scope = 'agent') = (agent_id is not null))
);
create unique index freezes_are_unique on freezes (scope, coalesce(agent_id, ''), coalesce(account_id, ''));

-- The word about freezes that signers follow: the newest version counts, so it grows with every change, also across a
-- restore of the database (milliseconds since 1970 at least).
create table freeze_orders (
  only_one boolean primary key default true check (only_one),
  version  bigint not null,
  -- The newest version that every signer has confirmed.
  told     bigint not null
);
insert into freeze_orders (version, told) values (0, 0);

-- Payments of either kind that wait because they are frozen: they are told when they are not any more.
create table frozen_payments (
  payment_id text primary key,
  account_id text not null references accounts,
  agent_id   text not null references agents,
  created_at timestamptz(3) not null default now()
);

-- What accounts have yet to be told of freezes of the whole installation: each in its audit log and by an event.
create table freeze_notes (
  id      bigint generated always as identity primary key,
  change  text not null check (change in ('frozen', 'unfrozen')),
  subject jsonb not null,
  acting  jsonb not null,
  -- The last account that has been told.
  told_to text not null default ''
);

-- The database server's identity as it was last known (cluster, timeline, database): another one means that it may be a copy
-- from an earlier time.
alter table installation add column database_identity text;

-- Set on spare keys after a restore: an account that the database has lost may have been given it, and its addresses.
alter table account_keys add column retired_at timestamptz(3);

-- Coins for fees of the wallets that hold tokens, as they were read last: how many usual transfers they pay for.
create table gas_levels (
  wallet_id      text not null references wallets,
  chain          text not null,
  -- Native coins that it holds, and what one usual transfer of a token costs at most, in minor units.
  balance_minor  numeric(78, 0) not null,
  transfer_minor numeric(78, 0) not null check (transfer_minor > 0),
  -- At most a million: more says nothing.
  transfers_left integer not null,
  is_low         boolean not null,
  low_since      timestamptz(3),
  read_at        timestamptz(3) not null,
  primary key (wallet_id, chain),
  constraint gas_is_low_since_some_time check (is_low = (low_since is not null))
);
create index gas_levels_low on gas_levels (low_since) where is_low;

-- Agents of the account that send coins for fees to its others, by chain.
alter table accounts add column gas_top_ups jsonb not null default '[]';

-- Payments of a funding agent that fill a wallet up.
create table gas_fills (
  transaction_id text primary key references transactions,
  account_id     text not null references accounts,
  wallet_id      text not null references wallets,
  chain          text not null,
  created_at     timestamptz(3) not null default now(),
  -- Since when it is known how the payment ended.
  ended_at       timestamptz(3),
  succeeded      boolean,
  constraint gas_fills_end_some_way check ((ended_at is null) = (succeeded is null))
);
-- At most one at a time fills a wallet.
create unique index gas_fills_open on gas_fills (wallet_id, chain) where ended_at is null;
create index gas_fills_of_wallet on gas_fills (wallet_id, chain, created_at desc);
create index gas_fills_of_account on gas_fills (account_id, chain, created_at);

do $$
begin
  if exists (select from pg_roles where rolname = 'purser_app') then
    grant update (database_identity) on installation to purser_app;
    grant select, insert, update on gas_levels, gas_fills to purser_app;
    grant select, insert, update, delete on freezes, freeze_orders, frozen_payments, freeze_notes to purser_app;
  end if;
end
$$;
