/**
 * What a node's answer to bytes that it was handed means.
 * - `known`: it has this transaction.
 * - `slot_taken`: a coin is spent, by a transaction in a block or one that waits and offers more; or the node does not
 *   know the coin. The chain decides.
 * - `underpriced`: it asks for a higher fee just now.
 * - `refused`: no repeat will help.
 * - `busy`: a repeat may help. What the table does not know is `busy` as well: only a certain refusal ends a payment.
 */
export type SendMeaning = 'known' | 'slot_taken' | 'underpriced' | 'refused' | 'busy';

/**
 * All texts of nodes that decide anything; codes do not (-25 to -27 are used for all of these). Earlier rows win.
 *
 * Sources: Bitcoin Core validation.cpp (PreChecks, ReplacementChecks), consensus/tx_verify.cpp, policy/policy.cpp,
 * util/error.cpp (common/messages.cpp); btcd mempool/mempool.go and policy.go, blockchain/validate.go.
 */
const table: readonly { readonly meaning: SendMeaning; readonly texts: readonly RegExp[] }[] = [
  {
    meaning: 'known',
    texts: [
      /txn-already-in-mempool|txn-same-nonwitness-data-in-mempool|txn-already-known/i, // Core
      /transaction already in block ?chain|outputs already in utxo set/i, // Core until 27; since 28
      /already have transaction|transaction already exists/i, // btcd
    ],
  },
  {
    meaning: 'slot_taken',
    texts: [
      /bad-txns-inputs-missingorspent|bad-txns-inputs-spent|missing[- ]?inputs|inputs missing or spent/i, // Core
      /txn-mempool-conflict|bip125-replacement-disallowed|replacement-failed/i, // Core
      /insufficient fee, rejecting replacement|insufficient feerate|^insufficient fee/i, // Core
      /too many potential replacements|replacement-adds-unconfirmed|bad-txns-spends-conflicting-tx/i, // Core
      /orphan transaction|output already spent in mempool/i, // btcd
      /replacement transaction (has an insufficient|evicts more|spends)/i, // btcd
    ],
  },
  {
    meaning: 'underpriced',
    texts: [
      // Core; the last one is said of what pays least of all that wait in a full mempool.
      /min relay fee not met|mempool min fee not met|mempool full/i,
      /fees which is under the required|insufficient priority|rejected by the rate limiter/i, // btcd
    ],
  },
  {
    meaning: 'busy', // An answer about these bytes and this moment.
    texts: [
      /too-long-mempool-chain|too-large-cluster/i, // Core
      /non-final|non-bip68-final|premature-spend-of-coinbase/i, // Core
      /immature|not finalized|sequence locks on inputs not met/i, // btcd
    ],
  },
  {
    meaning: 'refused',
    texts: [
      /tx decode failed|decode hex|deserializ/i, // both
      /script-verify-flag-failed|bad-witness-nonstandard|bad-txns-nonstandard-inputs/i, // Core
      /bad-txns-(vin-empty|vout-empty|vout-negative|vout-toolarge|txouttotal-toolarge|oversize|inputs-duplicate)/i, // Core
      /bad-txns-(in-belowout|inputvalues-outofrange|fee-outofrange|prevout-null|too-many-sigops)/i, // Core
      /\bdust\b|tx-size|scriptpubkey|scriptsig-|bare-multisig|multi-op-return|datacarrier|^version$/i, // Core; btcd
      /fee exceeds maximum|absurdly-high-fee|max-fee-exceeded/i, // Core
      /failed to validate input|failed to parse input|is not standard|non-standard|total (value of all|output)/i, // btcd
      /transaction (output value|has no inputs|has no outputs|contains duplicate)|serialized transaction is too big/i, // btcd
    ],
  },
];

/** @param text the node's words, wrapped in whatever a server puts around them */
export function meaningOfSendError(text: string): SendMeaning {
  const words = reasonOf(text);
  return table.find((row) => row.texts.some((pattern) => pattern.test(words)))?.meaning ?? 'busy';
}

/**
 * The fee that a node wants for bytes that it calls underpriced, in satoshis; undefined where it does not say.
 * Source: as of the texts: Core's "141 < 500", btcd's "under the required amount of 500".
 */
export function wantedFeeOf(text: string): bigint | undefined {
  const wanted = /not met, \d+ < (\d{1,16})\b|under the required amount of (\d{1,16})\b/i.exec(reasonOf(text));
  const digits = wanted?.[1] ?? wanted?.[2];
  return digits === undefined ? undefined : BigInt(digits);
}

/** What the node itself said: Esplora wraps it as `sendrawtransaction RPC error: {"code":-26,"message":"…"}`. */
export function reasonOf(text: string): string {
  return (/"message":\s*"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? text).trim();
}
