-- Up Migration

alter table approvals
  -- Who has decided what, in order: [{approver, decision, note, decided_at}].
  add column decisions jsonb not null default '[]',
  -- When to look whether the payment has heard that its question was answered, or that its policy has changed.
  add column reminder_at timestamptz(3);

create index approvals_by_account on approvals (account_id, created_at desc, id desc);
create index approvals_of_agent on approvals (agent_id, created_at desc, id desc);
create index approvals_pending on approvals (account_id, created_at desc, id desc) where status = 'pending';
create index approvals_to_remind on approvals (reminder_at) where reminder_at is not null;

-- How each person who is asked was told: one mail for each question and approver.
create table approval_mails (
  approval_id text not null references approvals,
  approver    text not null,
  status      text not null default 'waiting' check (status in ('waiting', 'sent', 'failed')),
  attempts    integer not null default 0,
  -- What the mail server said last, when it did not take the mail.
  error       text,
  sent_at     timestamptz(3),
  primary key (approval_id, approver),
  constraint approval_mails_sent_agrees check ((status = 'sent') = (sent_at is not null))
);

-- The links in those mails. Each opens one question for one person; of its token only the hash is kept.
create table approval_links (
  token_hash  bytea primary key,
  approval_id text not null references approvals,
  approver    text not null,
  created_at  timestamptz(3) not null default now(),
  -- A link decides once.
  used_at     timestamptz(3)
);
create index approval_links_of_person on approval_links (approval_id, approver, created_at);

do $$
begin
  if exists (select from pg_roles where rolname = 'purser_app') then
    grant select, insert, update, delete on approval_mails, approval_links to purser_app;
  end if;
end
$$;
