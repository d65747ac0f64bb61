-- Up Migration

-- A deleted agent is kept for its history, and its wallet so that no child of the account's key is ever used twice. It
-- pays nothing: it is inactive for good.
alter table agents
  add column deleted_at timestamptz(3),
  add constraint agents_deleted_are_inactive check (deleted_at is null or status = 'inactive'),
  drop constraint agents_name_is_unique;
-- The name of a deleted one is free again.
create unique index agents_name_is_unique on agents (account_id, agent_name) where deleted_at is null;
drop index agents_by_account;
create index agents_by_account on agents (account_id, created_at desc, id desc) where deleted_at is null;
