#!/bin/sh
# Makes the secrets of an installation in DIR, once: identities of three signers with their key-encryption keys, of the
# coordinator and of the policy step; and prints the lines for .env. It never replaces what is there.
#   sh deploy/init-keys.sh DIR [command that runs signer/init.ts; default: node signer/init.ts]
set -eu
dir=${1:?usage: sh deploy/init-keys.sh DIR}
shift
[ $# -gt 0 ] || set -- node signer/init.ts

public_key() {
  # Not as one pipeline: that would end with the success of sed.
  made=$("$@") || exit 1
  printf '%s\n' "$made" | sed -n 's/.*"publicKey":"\([^"]*\)".*/\1/p'
}

one=$(public_key "$@" --kind signer --dir "$dir/signer-1")
two=$(public_key "$@" --kind signer --dir "$dir/signer-2")
three=$(public_key "$@" --kind signer --dir "$dir/signer-3")
coordinator=$(public_key "$@" --kind coordinator --dir "$dir/coordinator")
policy=$(public_key "$@" --kind policy --dir "$dir/policy")

cat <<END
PURSER_SIGNER_1_PUBLIC_KEY=$one
PURSER_SIGNER_2_PUBLIC_KEY=$two
PURSER_SIGNER_3_PUBLIC_KEY=$three
PURSER_COORDINATOR_PUBLIC_KEY=$coordinator
PURSER_POLICY_PUBLIC_KEY=$policy
END
