-- Up Migration

-- What a client's Idempotency-Key has begun. Written in the database transaction of what it made.
create table idempotency_keys (
  account_id  text not null references accounts,
  method      text not null,
  -- As requested, with the ids in it.
  path        text not null,
  key         text not null,
  -- SHA-256 of the canonical body (RFC 8785).
  body_hash   bytea not null,
  -- What was made: the answer can be made from it anew when whoever began has died.
  resource_id text,
  -- Until then whoever began is taken to be still at work.
  lease_until timestamptz(3) not null,
  -- The answer, once there is one; byte by byte what was sent.
  status      smallint,
  answer      text,
  created_at  timestamptz(3) not null default now(),
  -- Null: lives as long as what it made.
  expires_at  timestamptz(3),
  primary key (account_id, method, path, key),
  constraint idempotency_keys_answer_agrees check ((status is null) = (answer is null))
);
create index idempotency_keys_expired on idempotency_keys (expires_at) where expires_at is not null;

alter table transactions
  -- What a pending payment waits for, in words, where that is nothing usual.
  add column notice text,
  -- Since when its wallet lacks the money for it.
  add column unfunded_since timestamptz(3);

alter table slots
  -- What its payload does: the payment, or nothing (a transfer of nothing to the wallet itself), on demand or for want.
  add column purpose text not null default 'payment' check (purpose in ('payment', 'cancel', 'fill')),
  -- Counts the payloads; one that no attempt has yet is still to be signed.
  add column version integer not null default 1,
  -- A replacement that was asked for and has no payload yet.
  add column wanted text check (wanted in ('speed_up', 'cancel', 'fill')),
  add column wanted_at timestamptz(3),
  -- Why the payment fails once a transaction that does nothing has taken its nonce.
  add column end_code text,
  add column end_message text;

alter table attempts
  -- Whether the bytes pay, or only use the nonce up.
  add column purpose text not null default 'payment' check (purpose in ('payment', 'noop')),
  -- Which of its slot's payloads this is.
  add column version integer not null default 1,
  -- The chain's newest block when the watcher first saw it waiting.
  add column waiting_block bigint;

do $$
begin
  if exists (select from pg_roles where rolname = 'purser_app') then
    grant select, insert, update, delete on idempotency_keys to purser_app;
  end if;
end
$$;
