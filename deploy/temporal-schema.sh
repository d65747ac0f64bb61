#!/bin/sh
# Creates and updates Temporal's two databases. Safe to run again; runs before each start of the server.
set -eu
export SQL_PLUGIN=postgres12 SQL_HOST="${POSTGRES_SEEDS:?}" SQL_PORT="${DB_PORT:-5432}"
export SQL_USER="${POSTGRES_USER:?}" SQL_PASSWORD="${POSTGRES_PWD:?}"

for pair in temporal:temporal temporal_visibility:visibility; do
  export SQL_DATABASE="${pair%%:*}"
  temporal-sql-tool create-database || true
  # A database that has a schema version already says so; the update that follows is the one that must succeed.
  temporal-sql-tool setup-schema -v 0.0 || true
  temporal-sql-tool update-schema --schema-name "postgresql/v12/${pair##*:}"
done
