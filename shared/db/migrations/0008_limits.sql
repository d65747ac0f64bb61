-- Up Migration

-- How much each key, each person of an account, or each address has asked for. Nothing is here of whom nothing limits.
create table request_windows (
  id        bigint generated always as identity primary key,
  -- key_…, user_…@acct_…, or address:…
  subject   text not null,
  -- Requests that have passed, where a minute's are limited. Number n is in slot n modulo `slots`.
  passed    bigint not null default 0,
  -- As many as the highest limit that there was: fewer would forget some of the last 60 seconds.
  slots     integer not null default 0,
  -- Of UTC, and requests that have passed on it.
  day       date not null,
  day_count integer not null default 0,
  -- When the last one passed.
  used_at   timestamptz not null,
  constraint request_windows_subject_is_unique unique (subject)
) with (fillfactor = 40);

-- When each of the last requests has passed. Rows are used again and never move: room is left on each page for that.
-- No reference: to check it would cost more than all the rest of a request.
create table request_slots (
  window_id bigint not null,
  slot      integer not null,
  at        timestamptz not null,
  primary key (window_id, slot)
) with (fillfactor = 40);

-- Requests under way. Whoever dies leaves leases that expire; after a crash of the database none is left.
create unlogged table request_leases (
  window_id  bigint not null,
  slot       integer not null,
  -- Names the request that has it.
  holder     uuid not null,
  expires_at timestamptz not null,
  primary key (window_id, slot)
) with (fillfactor = 40);

-- Those that count against a plan.
create index x402_sessions_open_by_account on x402_sessions (account_id) where released_at is null;

-- Admits a request of a subject, or says what is in its way: then it leaves no trace. Null for a limit that there is not.
-- Call it as a transaction of its own: it does not wait for the disk, so that a crash of the database may forget the last
-- moments.
--   refused_by            minute, day or concurrent: of several, the one that lasts longest
--   retry_after           seconds after which a request passes; at least 1
--   minute_left, day_left how many more would pass
--   minute_reset          seconds until the oldest of the minute counts no more
--   day_reset             seconds until the day ends
--   lease_slot            where the lease is, if it has one
create function admit_request(
  for_subject text, per_minute integer, per_day integer, concurrent integer, for_holder uuid, lease_seconds integer,
  out window_id bigint, out refused_by text, out retry_after integer,
  out minute_left integer, out minute_reset integer, out day_left integer, out day_reset integer, out lease_slot integer)
language plpgsql as $$
#variable_conflict use_column
declare
  w request_windows;
  t timestamptz;
  minute_ago timestamptz;
  today date;
  -- Numbers of requests: the first within the minute is from `low` to `high`.
  low bigint;
  high bigint;
  middle bigint;
  oldest timestamptz;
  probed timestamptz;
  kept timestamptz[];
  under_way integer;
begin
  perform set_config('synchronous_commit', 'off', true);
  loop
    select * into w from request_windows where subject = for_subject for no key update;
    exit when found;
    insert into request_windows (subject, day, used_at)
    values (for_subject, 'epoch', 'epoch') on conflict (subject) do nothing;
  end loop;
  window_id := w.id;

  -- Read once nobody else is at it. A clock that was put back a little stands still; one that was put back by more
  -- than a minute has made what is stored mean nothing.
  t := clock_timestamp();
  if w.used_at > t + interval '1 minute' then
    w.passed := 0;
  else
    t := greatest(t, w.used_at);
  end if;
  minute_ago := t - interval '1 minute';
  today := (t at time zone 'utc')::date;
  if w.day <> today then
    w.day := today;
    w.day_count := 0;
  end if;

  if per_minute is not null then
    if w.slots < per_minute then
      kept := array(select s.at from request_slots s where s.window_id = w.id and s.at > minute_ago
                    and w.passed > 0 order by s.at);
      delete from request_slots s where s.window_id = w.id;
      insert into request_slots (window_id, slot, at)
      select w.id, each.number - 1, each.at from unnest(kept) with ordinality as each (at, number);
      w.passed := cardinality(kept);
      w.slots := per_minute;
    end if;
    low := greatest(w.passed - per_minute, 0);
    high := w.passed;
    -- Whoever has rested for a minute need not be looked for.
    if w.used_at <= minute_ago then low := high; end if;
    oldest := t;
    while low < high loop
      middle := (low + high) / 2;
      select s.at into probed from request_slots s where s.window_id = w.id and s.slot = middle % w.slots;
      if probed > minute_ago then
        high := middle;
        oldest := probed;
      else
        low := middle + 1;
      end if;
    end loop;
    minute_left := per_minute - (w.passed - low);
    minute_reset := ceil(extract(epoch from oldest - minute_ago));
    if minute_left <= 0 then
      minute_left := 0;
      refused_by := 'minute';
      retry_after := minute_reset;
    end if;
  end if;

  if per_day is not null then
    day_left := greatest(per_day - w.day_count, 0);
    day_reset := ceil(extract(epoch from ((today + 1)::timestamp at time zone 'utc') - t));
    if day_left = 0 and day_reset > coalesce(retry_after, 0) then
      refused_by := 'day';
      retry_after := day_reset;
    end if;
  end if;

  if concurrent is not null then
    select count(*) filter (where l.expires_at > t), coalesce(min(l.slot) filter (where l.expires_at <= t), count(*))
    into under_way, lease_slot from request_leases l where l.window_id = w.id;
    if refused_by is null and under_way >= concurrent then
      refused_by := 'concurrent';
      retry_after := 1;
    end if;
  end if;

  if refused_by is not null then
    lease_slot := null;
    return;
  end if;
  if per_minute is not null then
    insert into request_slots (window_id, slot, at) values (w.id, w.passed % w.slots, t)
    on conflict (window_id, slot) do update set at = excluded.at;
    w.passed := w.passed + 1;
    minute_left := minute_left - 1;
  end if;
  if per_day is not null then day_left := day_left - 1; end if;
  if concurrent is not null then
    insert into request_leases (window_id, slot, holder, expires_at)
    values (w.id, lease_slot, for_holder, t + lease_seconds * interval '1 second')
    on conflict (window_id, slot) do update set holder = excluded.holder, expires_at = excluded.expires_at;
  end if;
  update request_windows set passed = w.passed, slots = w.slots, day = w.day, day_count = w.day_count + 1, used_at = t
  where id = w.id;
end $$;

do $$
begin
  if exists (select from pg_roles where rolname = 'purser_app') then
    grant select, insert, update, delete on request_windows, request_slots, request_leases to purser_app;
  end if;
end
$$;
