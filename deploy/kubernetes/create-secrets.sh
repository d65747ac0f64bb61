#!/bin/sh
# Puts the folders that deploy/init-keys.sh made into the secrets that the manifests name. Safe to run again: it replaces
# them. Keep the folders elsewhere, offline; keys/operator goes to the administrators and into no cluster.
#   sh deploy/kubernetes/create-secrets.sh DIR
set -eu
dir=${1:?usage: sh deploy/kubernetes/create-secrets.sh DIR}

put() {
  kubectl --namespace "$1" create secret generic "$2" --from-file="$dir/$3" --dry-run=client --output=yaml | kubectl apply -f -
}
put purser keys-api api
put purser keys-policy policy
put purser keys-coordinator coordinator
put purser keys-webhooks webhooks
put purser-signer-1 keys signer-1
put purser-signer-2 keys signer-2
put purser-signer-3 keys signer-3
