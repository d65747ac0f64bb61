-- Up Migration

-- Whether this installation moves real money. A process of the other environment refuses to work on it.
create table installation (
  only_one    boolean primary key default true check (only_one),
  environment text not null check (environment in ('sandbox', 'production')),
  created_at  timestamptz(3) not null default now()
);
-- One that has API keys already is what they are for.
insert into installation (environment)
select case when bool_or(prefix like 'purser\_live\_%') then 'production' else 'sandbox' end
from api_keys
having count(*) > 0;

alter table accounts
  -- Networks from which it may be used; none: from anywhere.
  add column ip_allowlist text[] not null default '{}',
  -- Whether API keys may change what guards payments, or only people who are signed in.
  add column policy_writes text not null default 'any' check (policy_writes in ('any', 'bearer')),
  -- What an account on the enterprise plan may; null: no limit.
  add column requests_per_minute integer check (requests_per_minute > 0),
  add column requests_per_day integer check (requests_per_day > 0),
  add column concurrent_requests integer check (concurrent_requests > 0),
  add constraint accounts_limits_of_their_own_are_for_enterprise check (
    plan = 'enterprise'
    or (requests_per_minute is null and requests_per_day is null and concurrent_requests is null));

alter table api_keys
  -- Null: everything that keys may, also what comes later.
  add column scopes text[],
  -- The one agent whose business it may do.
  add column agent_id text references agents,
  add column expires_at timestamptz(3),
  add constraint api_keys_may_something check (scopes is null or cardinality(scopes) > 0);
create index api_keys_of_agent on api_keys (agent_id) where agent_id is not null;

-- People, as an identity provider knows them.
create table users (
  id            text primary key,
  issuer        text not null,
  subject       text not null,
  -- In lower case, and only while the provider says that it is verified.
  email         text check (email = lower(email)),
  name          text,
  created_at    timestamptz(3) not null default now(),
  last_login_at timestamptz(3) not null default now(),
  constraint users_are_known_by_subject unique (issuer, subject)
);

-- Who belongs to an account, and who is invited to: whoever signs in with that address first becomes the member.
create table members (
  id         text primary key,
  account_id text not null references accounts,
  user_id    text references users,
  email      text not null check (email = lower(email)),
  role       text not null check (role in ('owner', 'admin', 'approver', 'viewer')),
  created_at timestamptz(3) not null default now(),
  joined_at  timestamptz(3),
  constraint members_email_is_unique unique (account_id, email),
  constraint members_user_is_unique unique (account_id, user_id),
  constraint members_joined_are_somebody check ((user_id is null) = (joined_at is null))
);
create index members_of_user on members (user_id) where user_id is not null;
create index members_invited on members (email) where user_id is null;

-- Whoever was named as an account's owner may now sign in as such.
insert into members (id, account_id, email, role)
select 'mbr_0' || left(md5(random()::text || id), 25), id, lower(owner_email), 'owner'
from accounts where owner_email is not null;

-- Somebody signed in. Access tokens and refresh tokens are good only while their session is.
create table auth_sessions (
  id             text primary key,
  account_id     text not null references accounts,
  user_id        text not null references users,
  created_at     timestamptz(3) not null default now(),
  revoked_at     timestamptz(3),
  revoked_reason text,
  constraint auth_sessions_revoked_says_why check ((revoked_at is null) = (revoked_reason is null))
);
create index auth_sessions_of_user on auth_sessions (user_id, account_id) where revoked_at is null;
create index auth_sessions_of_account on auth_sessions (account_id) where revoked_at is null;

-- What a browser brings from the sign-in, to be exchanged once for tokens. SHA-256 of it.
create table exchange_codes (
  hash       bytea primary key,
  account_id text not null references accounts,
  user_id    text not null references users,
  -- The session that it was exchanged for.
  session_id text references auth_sessions on delete cascade,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null
);
create index exchange_codes_by_expiry on exchange_codes (expires_at);
create index exchange_codes_of_session on exchange_codes (session_id) where session_id is not null;

-- Each good once, for its successor. SHA-256 of it.
create table refresh_tokens (
  hash             bytea primary key,
  session_id       text not null references auth_sessions on delete cascade,
  created_at       timestamptz(3) not null default now(),
  expires_at       timestamptz(3) not null,
  used_at          timestamptz(3),
  -- Sealed by the token itself, so that nobody else can read it: for whoever asks twice within some seconds.
  sealed_successor text,
  constraint refresh_tokens_used_has_successor check (sealed_successor is null or used_at is not null)
);
create index refresh_tokens_of_session on refresh_tokens (session_id);
create index refresh_tokens_by_expiry on refresh_tokens (expires_at);

do $$
begin
  if exists (select from pg_roles where rolname = 'purser_app') then
    grant select, insert, update, delete
      on users, members, auth_sessions, exchange_codes, refresh_tokens to purser_app;
    grant select, insert on installation to purser_app;
    -- What is granted by default goes further.
    revoke update, delete, truncate on installation from purser_app;
  end if;
end
$$;
