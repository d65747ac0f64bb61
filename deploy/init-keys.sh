#!/bin/sh
# Makes the secrets of an installation in DIR, once: identities of three signers with their key-encryption keys, of the
# coordinator, of the policy step and of the operator, the pair for secrets of webhooks, and the key of access tokens; and
# prints the lines for .env. It never replaces what is there, but makes what is missing of an installation of an earlier version.
#   sh deploy/init-keys.sh DIR [command that runs Node in this folder; default: node]
set -eu
dir=${1:?usage: sh deploy/init-keys.sh DIR}
shift
[ $# -gt 0 ] || set -- node

# Opened by the workers that deliver, and by nobody else; the api gets the public half only.
[ -e "$dir/webhooks/webhooks.jwks.json" ] ||
  "$@" worker/init-webhook-keys.ts --keys "$dir/webhooks/webhooks.jwks.json" --public "$dir/api/webhooks-public.json" >&2
# Signs access tokens: all api processes have the same file.
[ -e "$dir/api/tokens.jwks.json" ] || "$@" api/init-token-keys.ts --keys "$dir/api/tokens.jwks.json" >&2

public_key() {
  # Not as one pipeline: that would end with the success of sed.
  made=$("$@" --json) || exit 1
  printf '%s\n' "$made" | sed -n 's/.*"publicKey": *"\([^"]*\)".*/\1/p'
}

# Lifts bans and has shares repaired. No container gets the private half: keep it where the administrators are.
if [ ! -e "$dir/operator/operator.json" ]; then
  operator=$(public_key "$@" signer/init.ts --kind operator --dir "$dir/operator")
  echo "PURSER_OPERATOR_PUBLIC_KEY=$operator"
fi
if [ -e "$dir/policy/policy.json" ]; then
  echo "The identities in $dir are there already and are left as they are." >&2
  exit 0
fi

one=$(public_key "$@" signer/init.ts --kind signer --dir "$dir/signer-1")
two=$(public_key "$@" signer/init.ts --kind signer --dir "$dir/signer-2")
three=$(public_key "$@" signer/init.ts --kind signer --dir "$dir/signer-3")
coordinator=$(public_key "$@" signer/init.ts --kind coordinator --dir "$dir/coordinator")
policy=$(public_key "$@" signer/init.ts --kind policy --dir "$dir/policy")

cat <<END
PURSER_SIGNER_1_PUBLIC_KEY=$one
PURSER_SIGNER_2_PUBLIC_KEY=$two
PURSER_SIGNER_3_PUBLIC_KEY=$three
PURSER_COORDINATOR_PUBLIC_KEY=$coordinator
PURSER_POLICY_PUBLIC_KEY=$policy
END
