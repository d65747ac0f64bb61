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

/** The whole thing to be signed, never a hash. One kind for each thing that a signer can decode. */
export type SignPayload = TransactionPayload | AuthorizationPayload;
export type TransactionPayload = { kind: 'evm-transaction'; transaction: EvmTransaction };
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
  /** `native`, or the address of the ERC-20 contract. */
  asset: 'native' | Hex;
  /** Who gets the money. */
  to: Hex;
  /** Amount in minor units of the asset; `0` only for a no-op. */
  amount_minor: string;
  /** Ceiling of `gas × maxFeePerGas` in minor units of the native coin (wei). */
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
  address: Hex;
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
