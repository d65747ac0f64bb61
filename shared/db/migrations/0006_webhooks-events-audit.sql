-- Up Migration

-- Receivers of events.
create table webhooks (
  id                text primary key,
  account_id        text not null references accounts,
  url               text not null,
  -- Null: every kind of event, also those to come.
  events            text[],
  status            text not null default 'active' check (status in ('active', 'inactive', 'disabled')),
  -- Why the service has disabled it.
  disabled_reason   text,
  -- Since when no attempt has succeeded.
  failing_since     timestamptz(3),
  -- The signing secret, sealed to the workers that deliver (JWE), and the id of the key that opens it.
  secret            text,
  secret_key_id     text,
  secret_format     text check (secret_format in ('base64', 'utf8')),
  -- The one before, for as long as both sign.
  previous_secret   text,
  previous_key_id   text,
  previous_until    timestamptz(3),
  deleted_at        timestamptz(3),
  created_at        timestamptz(3) not null default now(),
  updated_at        timestamptz(3) not null default now(),
  constraint webhooks_events_name_some check (events is null or cardinality(events) > 0),
  constraint webhooks_disabled_says_why check ((status = 'disabled') = (disabled_reason is not null)),
  constraint webhooks_secret_is_whole check (
    (secret is null) = (secret_key_id is null) and (secret is null) = (secret_format is null)),
  constraint webhooks_previous_is_whole check (
    (previous_secret is null) = (previous_key_id is null) and (previous_secret is null) = (previous_until is null)),
  -- Whoever is deleted leaves no secret behind, and nobody else is without one.
  constraint webhooks_deleted_has_no_secret check (
    (deleted_at is null) = (secret is not null) and (deleted_at is null or previous_secret is null))
);
create index webhooks_by_account on webhooks (account_id, created_at desc, id desc) where deleted_at is null;
create index webhooks_of_key on webhooks (secret_key_id) where deleted_at is null;

-- What grows for ever is kept by month. No references: what is told here was so, whatever has become of it since.
alter table events rename to events_before;
alter table events_before rename constraint events_pkey to events_before_pkey;
alter index events_by_account rename to events_before_by_account;
alter table audit_logs rename to audit_logs_before;
alter table audit_logs_before rename constraint audit_logs_pkey to audit_logs_before_pkey;
alter index audit_logs_by_account rename to audit_logs_before_by_account;

create table events (
  id            text not null,
  account_id    text not null,
  type          text not null,
  resource_type text not null,
  resource_id   text not null,
  agent_id      text,
  -- Text, because each attempt to deliver it sends the same bytes.
  data          json not null,
  api_version   text not null default '1.0.0',
  created_at    timestamptz(3) not null default now(),
  primary key (id, created_at)
) partition by range (created_at);
create index events_by_account on events (account_id, created_at desc, id desc);
create index events_by_type on events (account_id, type, created_at desc, id desc);
create index events_by_resource on events (resource_id, created_at desc, id desc);

-- One for each event and receiver, written with the event; and one for each that somebody asks for.
create table webhook_deliveries (
  id               text not null,
  account_id       text not null,
  webhook_id       text not null,
  event_id         text not null,
  event_type       text not null,
  kind             text not null default 'event' check (kind in ('event', 'redelivery', 'test')),
  status           text not null default 'pending' check (status in ('pending', 'succeeded', 'failed')),
  -- Attempts so far; what follows is of the last one.
  attempt          smallint not null default 0,
  status_code      smallint,
  response_time_ms integer,
  failure_reason   text,
  failure_message  text,
  response_body    text,
  -- Null once it has ended.
  next_attempt_at  timestamptz(3) default now(),
  -- When its workflow was asked for.
  dispatched_at    timestamptz(3),
  -- When the reconcile schedule last made sure that a workflow follows this row.
  reconciled_at    timestamptz(3),
  created_at       timestamptz(3) not null default now(),
  updated_at       timestamptz(3) not null default now(),
  primary key (id, created_at),
  constraint webhook_deliveries_pending_goes_on check ((status = 'pending') = (next_attempt_at is not null))
) partition by range (created_at);
create index webhook_deliveries_by_webhook on webhook_deliveries (webhook_id, created_at desc, id desc);
create index webhook_deliveries_by_status on webhook_deliveries (webhook_id, status, created_at desc, id desc);
create index webhook_deliveries_by_type on webhook_deliveries (webhook_id, event_type, created_at desc, id desc);
create index webhook_deliveries_of_event on webhook_deliveries (event_id);
create index webhook_deliveries_to_dispatch on webhook_deliveries (webhook_id, created_at, id) where dispatched_at is null;
create index webhook_deliveries_due on webhook_deliveries (next_attempt_at, id) where status = 'pending';
create index webhook_deliveries_begun on webhook_deliveries (webhook_id)
  where status = 'pending' and attempt = 0 and dispatched_at is not null;

create table webhook_attempts (
  delivery_id      text not null,
  number           smallint not null check (number > 0),
  status_code      smallint,
  response_time_ms integer,
  -- Null for one that succeeded.
  failure_reason   text,
  failure_message  text,
  response_body    text,
  -- When the request was begun.
  created_at       timestamptz(3) not null,
  primary key (delivery_id, number, created_at)
) partition by range (created_at);

-- Entries that have no place in their account's chain yet, written with what they report. The sealing step moves them.
create table audit_inbox (
  id            text primary key,
  account_id    text not null references accounts,
  action        text not null,
  actor_type    text not null check (actor_type in ('user', 'api_key', 'approver', 'system')),
  actor_id      text,
  actor_name    text,
  resource_type text not null,
  resource_id   text,
  agent_id      text,
  result        text not null check (result in ('success', 'denied', 'error')),
  ip_address    text,
  user_agent    text,
  request_id    text,
  changes       json,
  metadata      json not null,
  created_at    timestamptz(3) not null default now()
);
create index audit_inbox_order on audit_inbox (account_id, created_at, id);

-- Who did what, with what result: one chain an account. Rows are added and never changed.
create table audit_logs (
  id            text not null,
  account_id    text not null,
  -- Counts an account's entries from 1; created_at never goes back along it.
  seq           bigint not null check (seq > 0),
  action        text not null,
  actor_type    text not null,
  actor_id      text,
  actor_name    text,
  resource_type text not null,
  resource_id   text,
  agent_id      text,
  result        text not null,
  ip_address    text,
  user_agent    text,
  request_id    text,
  changes       json,
  metadata      json not null,
  -- SHA-256 in hex: of the entry before, and of this one.
  prev_hash     text not null,
  hash          text not null,
  created_at    timestamptz(3) not null,
  primary key (id, created_at)
) partition by range (created_at);
create index audit_logs_by_seq on audit_logs (account_id, seq);
create index audit_logs_by_account on audit_logs (account_id, created_at desc, id desc);
create index audit_logs_by_agent on audit_logs (account_id, agent_id, created_at desc, id desc);
create index audit_logs_by_result on audit_logs (account_id, result, created_at desc, id desc);
-- Nearly every entry of an agent reports a success; the others are few among them.
create index audit_logs_by_agent_and_result on audit_logs (account_id, agent_id, result, created_at desc, id desc)
  where result <> 'success';
create index audit_logs_by_action on audit_logs (account_id, action, created_at desc, id desc);
create index audit_logs_by_actor on audit_logs (account_id, actor_id, created_at desc, id desc);
create index audit_logs_by_resource on audit_logs (resource_id, created_at desc, id desc);
create index audit_logs_by_resource_type on audit_logs (account_id, resource_type, created_at desc, id desc);

-- Where each chain ends; its lock is what the sealing of one account waits for, and nothing else.
create table audit_heads (
  account_id text primary key references accounts,
  seq        bigint not null,
  hash       text not null,
  created_at timestamptz(3) not null,
  sealed_at  timestamptz(3) not null default now()
);

-- Where each chain goes on from: the last entry that retention has taken away.
create table audit_checkpoints (
  account_id text primary key references accounts,
  seq        bigint not null,
  hash       text not null,
  created_at timestamptz(3) not null
);

-- How many rows a list has, by what it is filtered by; the key is who owns it and the filters. Rows of the month of the
-- rows counted, so that they go with those. Nobody waits for a count: what changes it is added as a row, and folded in later.
create table list_counts (
  list  text not null,
  key   text not null,
  month date not null,
  count bigint not null,
  primary key (list, key, month)
);
create index list_counts_of_month on list_counts (list, month);
create table list_count_deltas (
  list  text not null,
  key   text not null,
  month date not null,
  delta integer not null
);
create index list_count_deltas_by_key on list_count_deltas (list, key);

create function month_of(instant timestamptz) returns date
language sql immutable parallel safe as $$ select date_trunc('month', instant at time zone 'utc')::date $$;

create function count_events() returns trigger language plpgsql as $$
begin
  insert into list_count_deltas (list, key, month, delta)
  select 'events', k.key, month_of(e.created_at), count(*)
  from added e cross join lateral (values (e.account_id), (e.account_id || '/type=' || e.type)) as k (key)
  group by k.key, month_of(e.created_at);
  return null;
end $$;
create trigger events_are_counted after insert on events
  referencing new table as added for each statement execute function count_events();

create function count_audit_logs() returns trigger language plpgsql as $$
begin
  insert into list_count_deltas (list, key, month, delta)
  select 'audit_logs', k.key, month_of(e.created_at), count(*)
  from added e cross join lateral (values
    (e.account_id),
    (e.account_id || '/action=' || e.action),
    (e.account_id || '/actor=' || e.actor_id),
    (e.account_id || '/resource_type=' || e.resource_type),
    (e.account_id || '/result=' || e.result),
    (e.account_id || '/agent=' || e.agent_id),
    (e.account_id || '/agent=' || e.agent_id || '/result=' || e.result)) as k (key)
  where k.key is not null
  group by k.key, month_of(e.created_at);
  return null;
end $$;
create trigger audit_logs_are_counted after insert on audit_logs
  referencing new table as added for each statement execute function count_audit_logs();

create function count_webhook_deliveries() returns trigger language plpgsql as $$
begin
  insert into list_count_deltas (list, key, month, delta)
  select 'webhook_deliveries', k.key, month_of(d.created_at), count(*)
  from added d
  cross join lateral (values
    (d.webhook_id),
    (d.webhook_id || '/type=' || d.event_type),
    (d.webhook_id || '/status=' || d.status)) as k (key)
  group by k.key, month_of(d.created_at);
  return null;
end $$;
create trigger webhook_deliveries_are_counted after insert on webhook_deliveries
  referencing new table as added for each statement execute function count_webhook_deliveries();

create function recount_webhook_delivery() returns trigger language plpgsql as $$
begin
  insert into list_count_deltas (list, key, month, delta) values
    ('webhook_deliveries', old.webhook_id || '/status=' || old.status, month_of(old.created_at), -1),
    ('webhook_deliveries', new.webhook_id || '/status=' || new.status, month_of(new.created_at), 1);
  return null;
end $$;
create trigger webhook_deliveries_are_recounted after update of status on webhook_deliveries
  for each row when (old.status is distinct from new.status) execute function recount_webhook_delivery();

create function count_transactions() returns trigger language plpgsql as $$
begin
  insert into list_count_deltas (list, key, month, delta)
  select 'transactions', k.key, month_of(t.created_at), count(*)
  from added t cross join lateral (values
    (t.account_id),
    (t.account_id || '/agent=' || t.agent_id),
    (t.account_id || '/status=' || t.status),
    (t.account_id || '/agent=' || t.agent_id || '/status=' || t.status)) as k (key)
  group by k.key, month_of(t.created_at);
  return null;
end $$;
create trigger transactions_are_counted after insert on transactions
  referencing new table as added for each statement execute function count_transactions();

create function recount_transaction() returns trigger language plpgsql as $$
begin
  insert into list_count_deltas (list, key, month, delta) values
    ('transactions', old.account_id || '/status=' || old.status, month_of(old.created_at), -1),
    ('transactions', old.account_id || '/agent=' || old.agent_id || '/status=' || old.status, month_of(old.created_at), -1),
    ('transactions', new.account_id || '/status=' || new.status, month_of(new.created_at), 1),
    ('transactions', new.account_id || '/agent=' || new.agent_id || '/status=' || new.status, month_of(new.created_at), 1);
  return null;
end $$;
create trigger transactions_are_recounted after update of status on transactions
  for each row when (old.status is distinct from new.status) execute function recount_transaction();
create index transactions_by_agent_and_status on transactions (agent_id, status, created_at desc, id desc);

insert into list_counts (list, key, month, count)
select 'transactions', k.key, month_of(t.created_at), count(*)
from transactions t cross join lateral (values
  (t.account_id),
  (t.account_id || '/agent=' || t.agent_id),
  (t.account_id || '/status=' || t.status),
  (t.account_id || '/agent=' || t.agent_id || '/status=' || t.status)) as k (key)
group by k.key, month_of(t.created_at);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'rows of % are added and never changed', tg_table_name using errcode = 'insufficient_privilege';
end $$;
create trigger audit_logs_are_append_only before update or delete on audit_logs
  for each row execute function refuse_change();
create trigger audit_logs_are_not_truncated before truncate on audit_logs
  for each statement execute function refuse_change();
create trigger events_are_append_only before update or delete on events
  for each row execute function refuse_change();
create trigger events_are_not_truncated before truncate on events
  for each statement execute function refuse_change();

-- Where the month of a row has no place of its own, as after a year without a worker, the row is kept here.
create table events_other partition of events default;
create table webhook_deliveries_other partition of webhook_deliveries default;
create table webhook_attempts_other partition of webhook_attempts default;
create table audit_logs_other partition of audit_logs default;
create trigger is_not_truncated before truncate on events_other
  for each statement execute function refuse_change();
create trigger is_not_truncated before truncate on audit_logs_other
  for each statement execute function refuse_change();

-- Makes room for one month of one table; nothing where there is some, or where its rows lie with the others already.
create function make_partition(parent text, month date) returns text
language plpgsql set search_path = public, pg_temp as $$
declare
  name text := parent || to_char(month, '"_"YYYY"_"MM');
  first_day text := to_char(month, 'YYYY-MM-DD') || ' 00:00:00+00';
  end_day text := to_char(month + interval '1 month', 'YYYY-MM-DD') || ' 00:00:00+00';
  is_late boolean;
begin
  if to_regclass(name) is not null then return null; end if;
  execute format('select exists (select from %I where created_at >= %L and created_at < %L)',
    parent || '_other', first_day, end_day) into is_late;
  if is_late then return null; end if;
  execute format('create table %I (like %I including defaults including constraints)', name, parent);
  if parent in ('events', 'audit_logs') then
    -- Of a table's triggers its partitions have those for each row.
    execute format('create trigger is_not_truncated before truncate on %I
                    for each statement execute function refuse_change()', name);
  end if;
  if exists (select from pg_roles where rolname = 'purser_app') then
    -- Rows are reached by the parent's name only, with the rights that are given there.
    execute format('revoke all on %I from purser_app', name);
  end if;
  -- Keeps readers and writers of the table waiting, until the transaction ends: it comes last.
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, name, first_day, end_day);
  return name;
exception when check_violation then
  -- A row of that month has come meanwhile. The block's changes are undone: the table is not there.
  return null;
end $$;

-- What is kept by month.
create function partitioned_tables() returns text[] language sql immutable as $$
  select array['events', 'webhook_deliveries', 'webhook_attempts', 'audit_logs']
$$;

-- The next three are run by the services' role, which cannot change the schema otherwise. Each call changes one partition
-- at most, and waits for others shorter than the second after which Postgres looks for deadlocks: it is never a payment
-- that gives way. Whoever is refused (lock_not_available) calls again.

-- Makes the first partition that is missing of this month and the next ones, and of the log's those of entries that have
-- waited for their place longer; null when none is missing.
create function make_next_partition(months_ahead integer) returns text
language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '200ms' as $$
declare
  parent text;
  made text;
  waiting date := (select month_of(min(created_at)) from audit_inbox);
begin
  if months_ahead is null or months_ahead not between 0 and 24 then
    raise exception 'months_ahead is %; it is 0 to 24', months_ahead using errcode = 'invalid_parameter_value';
  end if;
  perform pg_advisory_xact_lock(hashtext('partitions'));
  while waiting < month_of(now()) loop
    made := make_partition('audit_logs', waiting);
    if made is not null then return made; end if;
    waiting := (waiting + interval '1 month')::date;
  end loop;
  for i in 0 .. months_ahead loop
    foreach parent in array partitioned_tables() loop
      made := make_partition(parent, (month_of(now()) + i * interval '1 month')::date);
      if made is not null then return made; end if;
    end loop;
  end loop;
  return null;
end $$;

-- Takes away the oldest month of a table, where it is older than `keep_months` whole ones; null when none is. The audit
-- log keeps a year whatever is asked for, and leaves where its chains go on from. A month that deliveries under way
-- need stays (object_in_use).
create function drop_oldest_partition(parent text, keep_months integer) returns text
language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '200ms' as $$
declare
  least_months integer := case parent when 'audit_logs' then 12 else 1 end;
  oldest date;
  name text;
  is_needed boolean := false;
begin
  if (parent = any (partitioned_tables())) is not true then
    raise exception '% is not kept by month', parent using errcode = 'invalid_parameter_value';
  end if;
  if (keep_months between least_months and 1200) is not true then
    raise exception '% keeps % to 1200 months, not %', parent, least_months, keep_months
      using errcode = 'invalid_parameter_value';
  end if;
  perform pg_advisory_xact_lock(hashtext('partitions'));
  select min(to_date(right(c.relname, 7), 'YYYY_MM')) into oldest
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = to_regclass(parent) and c.relname ~ '_\d{4}_\d{2}$';
  if oldest is null or oldest >= month_of(now()) - keep_months * interval '1 month' then return null; end if;
  name := parent || to_char(oldest, '"_"YYYY"_"MM');
  if parent = 'webhook_deliveries' then
    execute format('select exists (select from %I where status = ''pending'')', name) into is_needed;
  elsif parent = 'events' then
    execute format(
      'select exists (select from webhook_deliveries d join %I e on e.id = d.event_id where d.status = ''pending'')',
      name) into is_needed;
  end if;
  if is_needed then
    raise exception '% stays: deliveries of it are under way', name using errcode = 'object_in_use';
  end if;
  if parent = 'audit_logs' then
    execute format(
      'insert into audit_checkpoints (account_id, seq, hash, created_at)
       select a.id, l.seq, l.hash, l.created_at
       from accounts a cross join lateral (select * from %I where account_id = a.id order by seq desc limit 1) l
       on conflict (account_id) do update
       set seq = excluded.seq, hash = excluded.hash, created_at = excluded.created_at
       where audit_checkpoints.seq < excluded.seq', name);
  end if;
  -- Nothing is folded meanwhile: the month's counts stand still, but for what its last writers add.
  perform pg_advisory_xact_lock(hashtext('list counts'));
  delete from list_counts where list = parent and month = oldest;
  -- Waits for everybody who uses the table, and keeps everybody else waiting until the transaction ends.
  execute format('drop table %I', name);
  delete from list_count_deltas where list = parent and month = oldest;
  return name;
end $$;

-- Rows that lie with the others, by the month that they are of.
create function find_misplaced_rows() returns table (parent text, month date, count bigint)
language sql security definer set search_path = public, pg_temp as $$
  select o.parent, o.month, count(*)
  from (select 'events' as parent, month_of(created_at) as month from events_other
        union all select 'webhook_deliveries', month_of(created_at) from webhook_deliveries_other
        union all select 'webhook_attempts', month_of(created_at) from webhook_attempts_other
        union all select 'audit_logs', month_of(created_at) from audit_logs_other) o
  group by o.parent, o.month order by o.parent, o.month
$$;
revoke all on function partitioned_tables(), make_partition(text, date), make_next_partition(integer),
  drop_oldest_partition(text, integer), find_misplaced_rows() from public;

-- What earlier versions have written: every month of it, and some to come.
do $$
declare
  parent text;
  month date;
begin
  foreach parent in array partitioned_tables() loop
    month := month_of(least(now(), case parent
      when 'events' then (select min(created_at) from events_before)
      when 'audit_logs' then (select min(created_at) from audit_logs_before) end));
    while month <= month_of(now()) + interval '3 months' loop
      perform make_partition(parent, month);
      month := (month + interval '1 month')::date;
    end loop;
  end loop;
end $$;

insert into events (id, account_id, type, resource_type, resource_id, agent_id, data, created_at)
select id, account_id, type, resource_type, resource_id, agent_id, data::json, created_at from events_before;
insert into audit_inbox (id, account_id, action, actor_type, actor_id, resource_type, resource_id, agent_id, result,
                         metadata, created_at)
select id, account_id, action, actor_type, actor_id, resource_type, resource_id, agent_id, result, metadata::json,
       created_at
from audit_logs_before;
drop table events_before;
drop table audit_logs_before;

do $$
begin
  if exists (select from pg_roles where rolname = 'purser_app') then
    grant select, insert, update, delete
      on webhooks, webhook_deliveries, audit_heads, list_counts, list_count_deltas to purser_app;
    grant select, insert, delete on audit_inbox to purser_app;
    grant select, insert on events, audit_logs, webhook_attempts to purser_app;
    grant select on audit_checkpoints to purser_app;
    grant execute on function make_next_partition(integer), drop_oldest_partition(text, integer), find_misplaced_rows()
      to purser_app;
    -- What is granted by default goes further.
    revoke update, delete, truncate on events, audit_logs, webhook_attempts from purser_app;
    revoke insert, update, delete, truncate on audit_checkpoints from purser_app;
    -- An entry that waits for its place is moved, and not changed.
    revoke update on audit_inbox from purser_app;
    revoke all on events_other, webhook_deliveries_other, webhook_attempts_other, audit_logs_other from purser_app;
  end if;
end
$$;
