/**
 * The schema of a signer's store, one step a version; `pragma user_version` counts them. Forward only. The first step
 * finds its tables there already where the store was made before versions were counted.
 */
export const migrations: readonly string[] = [
  // 1: keys, shares, bans, and the log of what was signed, which the database itself keeps from being changed.
  `
  create table if not exists keys (
    key_id text primary key,
    session_id text not null unique,
    state text not null check (state in ('generating', 'stored', 'active', 'abandoned')),
    created_at_ms integer not null
  ) strict;
  create table if not exists shares (
    key_id text not null references keys (key_id),
    epoch integer not null,
    engine_version text not null,
    public_key blob not null check (length(public_key) = 65),
    chain_code blob not null check (length(chain_code) = 32),
    sealed_share blob not null,
    created_at_ms integer not null,
    primary key (key_id, epoch)
  ) strict;
  create table if not exists bans (
    key_id text not null,
    party integer not null,
    reason text not null,
    created_at_ms integer not null,
    primary key (key_id, party)
  ) strict;
  create table if not exists signing_log (
    seq integer primary key autoincrement,
    at_ms integer not null,
    session_id text not null,
    counterparty integer not null,
    key_id text not null,
    epoch integer not null,
    path text not null,
    address text not null,
    transaction_id text not null,
    decision_id text not null,
    receipt text not null,
    payload text not null,
    digest blob not null,
    signature blob
  ) strict;
  create trigger if not exists signing_log_no_update before update on signing_log
    begin select raise(abort, 'the signing log is append-only'); end;
  create trigger if not exists signing_log_no_delete before delete on signing_log
    begin select raise(abort, 'the signing log is append-only'); end;
  `,
  // 2: epochs that are stored before they are used, records of what each slot is for, limits of the account's owner.
  `
  -- Ed25519, 32 bytes in base64url: whose word changes the limits of the key's wallets.
  alter table keys add column owner_key text;
  -- 0: what the others recorded while this signer was away has not been merged yet, so nothing is signed with the key.
  alter table keys add column has_records integer not null default 1;
  -- Whether a share of it was ever stored by a key generation.
  alter table keys add column was_stored integer not null default 0;
  -- The run that made the share, and whether all three are known to have stored theirs.
  alter table shares add column session_id text not null default '';
  alter table shares add column state text not null default 'active' check (state in ('stored', 'active'));
  -- Whether the run made everything anew (a key generation, a complete refresh); a ban is lifted only after such a run.
  alter table shares add column complete integer not null default 1;
  -- Which key-encryption key the share is sealed under; empty: from before there could be several.
  alter table shares add column kek_id text not null default '';

  -- What one slot (a nonce of a wallet on a chain, or an EIP-3009 nonce) was used for, for ever.
  create table slots (
    slot text primary key,
    key_id text not null,
    -- Asset, recipient and amount; empty where only something that pays nobody was signed.
    intent text not null,
    transaction_id text not null,
    at_ms integer not null
  ) strict;
  create index slots_by_key on slots (key_id);
  -- The slot that a payment has now, and the decision that gave it to it.
  create table payments (
    transaction_id text primary key,
    key_id text not null,
    -- Empty: never to be signed.
    slot text not null,
    intent text not null,
    -- Unix seconds; null for a nonce.
    valid_before integer,
    decision_id text not null,
    at_ms integer not null
  ) strict;
  create index payments_by_key on payments (key_id);
  -- Signatures that this signer took part in, to be given again for the same digest and wallet; null until it is told.
  create table signatures (
    address text not null,
    digest blob not null,
    key_id text not null,
    signature blob,
    at_ms integer not null,
    primary key (address, digest)
  ) strict;
  create index signatures_by_key on signatures (key_id);

  -- The newest limits of each wallet, as the account's owner signed them.
  create table limits (
    key_id text not null,
    wallet text not null,
    version integer not null,
    document text not null,
    at_ms integer not null,
    primary key (key_id, wallet)
  ) strict;
  -- What put another owner's key in place of the one before, as the one before signed it.
  create table owner_key_changes (
    key_id text not null,
    version integer not null,
    document text not null,
    at_ms integer not null,
    primary key (key_id, version)
  ) strict;
  -- What was signed away, to be counted against a day: each height that the cost of a slot rose to. Bits of parties that
  -- know of it: 1, 2, 4.
  create table spending (
    key_id text not null,
    -- SHA-256.
    slot text not null,
    wallet text not null,
    -- With its chain.
    asset text not null,
    amount_minor text not null,
    known_to integer not null,
    at_ms integer not null,
    primary key (slot, asset, amount_minor)
  ) strict;
  create index spending_by_wallet on spending (wallet, asset, at_ms);
  create index spending_by_key on spending (key_id, slot);
  `,
  // 3: coins, which are slots that have a value; payments of which signers knew different slots.
  `
  -- Satoshis that a coin was first said to be worth, for ever; null for other slots.
  alter table slots add column value_sat text;
  -- Other slots of a payment that signers told of when records were merged, as JSON: [{"slot": …, "validBefore": …}].
  alter table payments add column others text not null default '[]';
  `,
  // 4: what was signed for a payment is looked up by it.
  `
  create index signing_log_by_payment on signing_log (transaction_id, seq);
  `,
  // 5: what is frozen.
  `
  -- The newest word of the policy step about everything that is frozen, as it was signed.
  create table freeze_order (
    only_one integer primary key check (only_one = 1),
    version integer not null,
    document text not null,
    at_ms integer not null
  ) strict;
  -- Whether the operator has frozen this signer. No row is ever deleted: a backup would not tell.
  create table operator_freeze (
    only_one integer primary key check (only_one = 1),
    -- Null: he lifted it.
    reason text,
    at_ms integer not null
  ) strict;
  `,
];
