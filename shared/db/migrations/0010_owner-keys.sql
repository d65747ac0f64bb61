-- Up Migration

-- Who sets limits inside the signers, as it was named when the account was made: an Ed25519 public key, 32 bytes in
-- base64url. The key that the signers make for the account has it from its start.
alter table accounts
  add column owner_key text,
  add constraint accounts_owner_key_is_a_key check (owner_key ~ '^[A-Za-z0-9_-]{43}$');
