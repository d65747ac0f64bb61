-- Up Migration

-- Payments on chains without nonces have a slot as well. What tells slots apart is the payment.
alter table slots
  drop constraint slots_pkey,
  alter column nonce drop not null,
  add constraint slots_nonce_once unique (wallet_id, chain, nonce),
  -- Slots (as the signers name them) that the payment had before and gave up, oldest first, the newest 16.
  add column former_slots text[] not null default '{}';

-- Coins that payments take, on chains where money is in coins: none is ever in two payments. They go with the slot of a
-- payment that was never signed, and stay where one was.
create table coins (
  chain          text not null,
  txid           text not null,
  vout           integer not null check (vout >= 0),
  transaction_id text not null references slots (transaction_id) on delete cascade,
  primary key (chain, txid, vout)
);
create index coins_of_payment on coins (transaction_id);

-- What the bytes offered for being taken; null for those that an earlier version signed, which tell it themselves.
alter table attempts add column offer jsonb;

do $$
begin
  if exists (select from pg_roles where rolname = 'purser_app') then
    grant select, insert, update, delete on coins to purser_app;
  end if;
end
$$;
