-- Roles and rights, applied once to a new database by a superuser, while connected to it. May be applied again.
--   purser_owner  owns every object and changes the schema; only the migration runs as it.
--   purser_app    reads and writes rows; API and workers run as it. It cannot change the schema.
-- Passwords are set apart from this file: deploy/init-db.sh does it for Docker Compose.
do $$
begin
  if not exists (select from pg_roles where rolname = 'purser_owner') then
    create role purser_owner login;
  end if;
  if not exists (select from pg_roles where rolname = 'purser_app') then
    create role purser_app login;
  end if;
  execute format('alter database %I owner to purser_owner', current_database());
  execute format('revoke all on database %I from public', current_database());
  execute format('grant connect on database %I to purser_app', current_database());
end
$$;

alter schema public owner to purser_owner;
revoke all on schema public from public;
grant usage on schema public to purser_app;
alter default privileges for role purser_owner grant select, insert, update, delete on tables to purser_app;
alter default privileges for role purser_owner grant usage, select on sequences to purser_app;
alter default privileges for role purser_owner grant usage on schemas to purser_app;
