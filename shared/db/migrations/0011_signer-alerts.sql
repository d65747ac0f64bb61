-- Up Migration

-- What was found to be wrong with the signers. One row a finding, as long as it lasts; looked at each minute.
create table signer_alerts (
  id              text primary key,
  kind            text not null,
  -- What it is about: a signer, an account key, both, or neither. No reference: a signer may tell of any key.
  party           smallint check (party in (1, 2, 3)),
  key_id          text,
  detail          text not null,
  -- When it was found first, and last.
  found_at        timestamptz(3) not null,
  seen_at         timestamptz(3) not null,
  -- When it had lasted long enough to tell somebody, and when it was over.
  opened_at       timestamptz(3),
  closed_at       timestamptz(3),
  -- When that was handed to the mail server, or there was nobody to be told.
  opening_told_at timestamptz(3),
  closing_told_at timestamptz(3),
  constraint signer_alerts_told_of_what_is check
    ((opening_told_at is null or opened_at is not null) and (closing_told_at is null or closed_at is not null))
);
create unique index signer_alerts_lasting_once on signer_alerts (kind, coalesce(party, 0), coalesce(key_id, ''))
  where closed_at is null;
create index signer_alerts_untold on signer_alerts (found_at)
  where (opened_at is not null and opening_told_at is null) or (closed_at is not null and closing_told_at is null);
create index signer_alerts_by_end on signer_alerts (closed_at) where closed_at is not null;

-- How often the shares of a key were made anew, as far as a worker knows; and when it learned of it.
alter table account_keys
  add column epoch integer not null default 1 check (epoch >= 1),
  add column refreshed_at timestamptz(3);

do $$
begin
  if exists (select from pg_roles where rolname = 'purser_app') then
    grant select, insert, update, delete on signer_alerts to purser_app;
  end if;
end
$$;
