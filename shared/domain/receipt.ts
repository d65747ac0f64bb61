/**
 * What travels from the policy step to the signers: what is to be signed, and the receipt that allows it.
 * Types only, JSON-safe, because both pass through Temporal histories.
 */

type Hex = `0x${string}`;

/**
 * An EIP-1559 transaction, complete. Amounts are decimal strings (no sign, no leading zeros) in wei.
 * Source: EIP-1559, EIP-2718 type 2. An access list is always empty.
 */
export interface EvmTransaction {
  /** EIP-155 chain id, for example 31337. */
  chainId: number;
  nonce: number;
  /** Recipient of a native transfer, or the token contract of an ERC-20 transfer. */
  to: Hex;
  valueWei: string;
  /** `0x` for a native transfer; `transfer(address,uint256)` call data for an ERC-20 transfer. */
  data: Hex;
  /** Gas limit, a decimal string. */
  gas: string;
  maxFeePerGasWei: string;
  maxPriorityFeePerGasWei: string;
}

/** A coin of a wallet that a Bitcoin transaction spends. */
export interface BitcoinInput {
  /** Of the transaction that made the coin, in hex as explorers show it (bytes reversed), without `0x`. */
  txid: string;
  /** Which of its outputs. */
  vout: number;
  /** Satoshis, a decimal string. The signature over this input is void unless it is true. */
  valueSat: string;
}

export interface BitcoinOutput {
  /** In its one written form. */
  address: string;
  /** Satoshis, a decimal string. */
  valueSat: string;
}

/**
 * A Bitcoin transaction, complete: version 2, every input a P2WPKH coin of the one wallet with sequence `0xfffffffd`
 * (it may be replaced, BIP-125), signed by SIGHASH_ALL. What the outputs leave of the inputs is the fee.
 * The first input is the anchor: every transaction of a payment spends it, so that one of them at most is mined.
 * Source: BIP-141, BIP-143.
 */
export interface BitcoinTransaction {
  /** CAIP-2 id; no part of the bytes. */
  chain: string;
  inputs: BitcoinInput[];
  outputs: BitcoinOutput[];
  lockTime: number;
}

/** What a Tron transaction does: `TransferContract`, or `TriggerSmartContract` without call value. */
export type TronContract =
  | { type: 'transfer'; to: string; amountSun: string }
  /** `data`: call data of `transfer(address,uint256)` in lower-case hex, without `0x`. */
  | { type: 'trigger'; contract: string; data: string };

/**
 * A Tron transaction, complete: what `raw_data` is encoded from. Addresses are base58check (`T…`).
 * Source: Tron protocol, `Transaction.raw`.
 */
export interface TronTransaction {
  /** CAIP-2 id; no part of the bytes. */
  chain: string;
  from: string;
  contract: TronContract;
  /** Bytes 6 and 7 of the reference block's number, and bytes 8 to 15 of its id, in lower-case hex. */
  refBlockBytes: string;
  refBlockHash: string;
  /** Unix milliseconds. No block later than the second takes it. */
  timestampMs: number;
  expirationMs: number;
  /** The most that a call may burn for energy; `0`: none, and none is encoded. */
  feeLimitSun: string;
  /** The most that its bytes may burn for bandwidth, and a transfer for making the recipient's account; no part of the bytes. */
  bandwidthSun: string;
}

/** One transaction on a chain, in the family's own shape. */
export type TransactionPayload =
  | { kind: 'evm-transaction'; transaction: EvmTransaction }
  | { kind: 'bitcoin-transaction'; transaction: BitcoinTransaction }
  | { kind: 'tron-transaction'; transaction: TronTransaction };

/** The whole thing to be signed, never a hash. One kind for each thing that a signer can decode. */
export type SignPayload =
  | Exclude<TransactionPayload, { kind: 'bitcoin-transaction' }>
  | BitcoinInputPayload
  | AuthorizationPayload;
/** Each input of a Bitcoin transaction has a signature of its own, over the whole transaction. */
export type BitcoinInputPayload = { kind: 'bitcoin-input'; input: number; transaction: BitcoinTransaction };
export type AuthorizationPayload = { kind: 'transfer-authorization'; authorization: TransferAuthorization };

/**
 * A token transfer that whoever has its signature may have carried out, complete: EIP-712 domain and message.
 * Source: EIP-3009, `TransferWithAuthorization`.
 */
export interface TransferAuthorization {
  domain: { name: string; version: string; chainId: number; verifyingContract: Hex };
  from: Hex;
  to: Hex;
  /** Minor units, a decimal string. */
  value: string;
  /** Unix seconds; good after the first and before the second. */
  validAfter: number;
  validBefore: number;
  /** 32 bytes. */
  nonce: Hex;
}

/** What the policy step allowed, in words of money. Amounts are decimal strings of minor units. */
export interface PaymentIntent {
  /** CAIP-2 id, for example `eip155:8453`. */
  chain: string;
  /** `native`, or the address of the token's contract. */
  asset: string;
  /** Who gets the money; the wallet itself for what pays nobody. */
  to: string;
  /** Amount in minor units of the asset; `0` only for a no-op. */
  amount_minor: string;
  /** The most that the transaction may cost besides, in minor units of the native coin. */
  max_fee_minor: string;
  /** Of a transfer by authorisation: the one that may be signed, so that a receipt is never good for two. */
  authorization?: { valid_after: number; valid_before: number; nonce: Hex } | undefined;
}

/** The wallet that pays: a child key of the account's key. */
export interface ReceiptWallet {
  /** Id of the account's key. */
  key_id: string;
  /** BIP-32 path without hardened steps, for example `m/44/60/0/0/7`. */
  path: string;
  address: string;
}

/** Claims of a policy receipt (a compact JWS of type `purser-receipt+jwt`). Times are Unix seconds. */
export interface PolicyReceipt {
  account_id: string;
  agent_id: string;
  wallet: ReceiptWallet;
  transaction_id: string;
  decision_id: string;
  /** Slots (shared/domain/slot.ts) that the payment had before and gives up with this receipt. */
  replaces?: string[] | undefined;
  intent: PaymentIntent;
  iat: number;
  exp: number;
}
