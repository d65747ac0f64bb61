-- Up Migration

-- A budget out of which an agent pays web APIs. Active until its time is over or it is deleted, by the clock alone.
create table x402_sessions (
  id            text primary key,
  account_id    text not null references accounts,
  agent_id      text not null references agents,
  wallet_id     text not null references wallets,
  chain         text not null,
  token         text not null,
  asset         text not null,
  decimals      smallint not null,
  budget_minor  numeric(78, 0) not null check (budget_minor > 0),
  -- Amounts and fees of its payments but for those that came to nothing.
  spent_minor   numeric(78, 0) not null default 0,
  -- Null: any target.
  allowed_urls  text[],
  expires_at    timestamptz(3) not null,
  deleted_at    timestamptz(3),
  -- When the rest of the budget was given back to the wallet; once.
  released_at   timestamptz(3),
  -- When the reconcile schedule last made sure that a workflow follows this row.
  reconciled_at timestamptz(3),
  created_at    timestamptz(3) not null default now(),
  constraint x402_sessions_budget_holds check (spent_minor >= 0 and spent_minor <= budget_minor),
  constraint x402_sessions_deleted_is_released check (deleted_at is null or released_at is not null)
);
create index x402_sessions_by_account on x402_sessions (account_id, created_at desc, id desc);
create index x402_sessions_by_agent on x402_sessions (agent_id, created_at desc, id desc);
create index x402_sessions_open on x402_sessions (reconciled_at nulls first, id) where released_at is null;

-- One payment out of a session. Its row takes from budget, limits and wallet before anything is signed.
create table x402_payments (
  id              text primary key,
  session_id      text not null references x402_sessions,
  account_id      text not null references accounts,
  agent_id        text not null references agents,
  wallet_id       text not null references wallets,
  chain           text not null,
  token           text not null,
  asset           text not null,
  decimals        smallint not null,
  amount_minor    numeric(78, 0) not null check (amount_minor > 0),
  fee_minor       numeric(78, 0) not null check (fee_minor >= 0),
  -- Percent, as it was when the fee was computed.
  fee_rate        text not null,
  from_address    text not null,
  to_address      text not null,
  target_url      text not null,
  method          text not null,
  x402_version    smallint not null check (x402_version in (1, 2)),
  -- {resource, accepted, extensions} as the target wrote them: text, because they are echoed to it unchanged.
  offer           json not null,
  -- Of the token's EIP-712 domain.
  domain_name     text not null,
  domain_version  text not null,
  -- How long an authorisation is good from the moment it is stamped.
  window_seconds  smallint not null check (window_seconds between 30 and 300),
  status          text not null default 'pending' check (status in ('pending', 'completed', 'failed')),
  status_detail   text not null default 'created'
    check (status_detail in ('created', 'awaiting_approval', 'signing', 'completed', 'failed')),
  failure_code    text,
  failure_message text,
  -- What a pending one fails with, once nothing can come any more of what may have been signed.
  ending_code     text,
  ending_message  text,
  decision_id     text,
  decision        jsonb,
  -- The authorisation (EIP-3009) that is or may have been signed; times are Unix seconds.
  auth_nonce      text,
  valid_after     bigint,
  valid_before    bigint,
  -- The header's value, once it was handed out.
  payment_signature text,
  -- Of the authorisation: null before there is one.
  settlement      text check (settlement in ('unsettled', 'settled', 'expired')),
  -- The block in which it was used, as last seen; cleared by a reorg.
  tx_hash         text,
  block_number    bigint,
  block_hash      text,
  settled_at      timestamptz(3),
  reconciled_at   timestamptz(3),
  created_at      timestamptz(3) not null default now(),
  updated_at      timestamptz(3) not null default now(),
  constraint x402_payments_end_agrees check (
    (status = 'failed') = (status_detail = 'failed') and (status = 'completed') = (status_detail = 'completed')
    and (status = 'failed') = (failure_code is not null)),
  constraint x402_payments_stamp_is_whole check (
    (auth_nonce is null) = (valid_after is null) and (auth_nonce is null) = (valid_before is null)
    and (auth_nonce is null) = (settlement is null)),
  constraint x402_payments_completed_is_stamped check (status <> 'completed' or auth_nonce is not null),
  constraint x402_payments_failed_is_over check (status <> 'failed' or settlement is distinct from 'unsettled'),
  constraint x402_payments_nonce_is_unique unique (chain, asset, from_address, auth_nonce)
);
create index x402_payments_by_session on x402_payments (session_id, created_at desc, id desc);
create index x402_payments_open on x402_payments (reconciled_at nulls first, id)
  where status = 'pending' or settlement = 'unsettled';
-- Authorisations of which it is not known what becomes.
create index x402_payments_unsettled on x402_payments (chain, valid_before) where settlement = 'unsettled';

-- Limits and questions are about payments of both kinds.
alter table reservations drop constraint reservations_transaction_id_fkey;
alter table reservations rename column transaction_id to payment_id;
alter table approvals drop constraint approvals_transaction_id_fkey;
alter table approvals rename column transaction_id to payment_id;

-- Payments of both kinds, as far as limits, holds and questions see them.
create view payments as
  select id, account_id, agent_id, chain, token, decimals, amount_minor, from_address, to_address, memo,
         null::text as target_url, status, status_detail, status = 'pending' as is_open,
         status = 'confirmed' as is_paid, block_number
  from transactions
  union all
  select id, account_id, agent_id, chain, token, decimals, amount_minor, from_address, to_address, null::text,
         target_url, status, status_detail,
         status = 'pending' or (status = 'completed' and settlement = 'unsettled'),
         coalesce(settlement = 'settled', false), block_number
  from x402_payments;

do $$
begin
  if exists (select from pg_roles where rolname = 'purser_app') then
    grant select, insert, update, delete on x402_sessions, x402_payments to purser_app;
    grant select on payments to purser_app;
  end if;
end
$$;
