#!/usr/bin/env bash
# Runs once, when the database's volume is new: roles of Purser, and a role and databases for Temporal.
set -euo pipefail

psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --file /purser/roles.sql
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  --set owner="$PURSER_OWNER_PASSWORD" --set app="$PURSER_APP_PASSWORD" --set temporal="$TEMPORAL_DB_PASSWORD" <<'SQL'
alter role purser_owner password :'owner';
alter role purser_app password :'app';
create role temporal login createdb password :'temporal';
SQL
