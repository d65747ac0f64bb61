#!/bin/sh
# Creates the namespace and the search attributes that the workflows set. Safe to run again.
set -eu
: "${TEMPORAL_ADDRESS:?}"

tries=60
until temporal operator cluster health >/dev/null 2>&1; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || { echo "Temporal at $TEMPORAL_ADDRESS does not answer." >&2; exit 1; }
  sleep 1
done
temporal operator namespace describe --namespace default >/dev/null 2>&1 ||
  temporal operator namespace create --namespace default --retention 720h

for attribute in AccountId=Keyword AgentId=Keyword TxStatus=Keyword Chain=Keyword ApprovalDeadline=Datetime; do
  name=${attribute%%=*}
  tries=30
  until temporal operator search-attribute list --namespace default | grep -qw "$name"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { echo "Search attribute $name could not be created." >&2; exit 1; }
    # A namespace is known to all parts of the server a second after its creation.
    temporal operator search-attribute create --namespace default --name "$name" --type "${attribute##*=}" || sleep 1
  done
done
