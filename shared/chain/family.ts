import type { PaymentIntent, SignPayload, TransactionPayload } from '../domain/receipt.ts';
import type { PreparedTransfer, ReplacementTerms } from './adapter.ts';
import type { ChainFamily } from './registry.ts';

/** An address in its one written form, so that equal addresses are equal strings; or why it cannot be paid. */
export type ReadAddress =
  | { readonly address: string }
  | {
      readonly fault: 'malformed' | 'checksum' | 'zero' | 'wrong_network';
      /** What is wrong and what would be right, as the end of a sentence: "must be 0x and 40 hexadecimal digits." */
      readonly sentence: string;
    };

/** What signed bytes offer for being taken, by the names of the wire; `null` where a family has no such thing. */
export interface Offer {
  /** Wei a unit of gas. */
  readonly max_fee_per_gas: string | null;
  readonly max_priority_fee_per_gas: string | null;
  /** Satoshis a virtual byte, at most three decimals. */
  readonly fee_rate: string | null;
  /** ISO 8601: no later block takes the transaction. */
  readonly expires_at: string | null;
}

/** Signed bytes, ready to be sent, and the hash under which the chain will know them. JSON-safe. */
export interface Signed {
  readonly raw: string;
  readonly hash: string;
  /** Absent in histories of earlier versions. */
  readonly offer?: Offer;
}

/** A coin that a payment spends, as it is locked in the database. */
export interface Coin {
  readonly txid: string;
  readonly vout: number;
}

/** Which places of a wallet are taken by its payments, as the database knows. */
export interface Places {
  /** The lowest nonce, not below the chain's mined count, that no payment of ours has. */
  nextNonce(minedCount: number): Promise<number>;
  /** Which of these coins no payment of ours has, or had. */
  freeCoins<C extends Coin>(coins: readonly C[]): Promise<C[]>;
}

/**
 * - `wait`: there is enough, but payments under way have to end first.
 * - `unprepared`: what the chain said has become outdated; ask it again.
 */
export type BuildResult =
  | {
      readonly outcome: 'built';
      readonly payload: TransactionPayload;
      /** `null` where the family has none. */
      readonly nonce: number | null;
      /** Coins that the payment takes; empty where the family has none. */
      readonly coins: readonly Coin[];
    }
  | { readonly outcome: 'wait' | 'unprepared' };

/** What is to be signed in place of what was signed; or why it cannot be, as a sentence for the payment's notice. */
export type ReplaceResult = { readonly payload: TransactionPayload } | { readonly refusal: string };

/**
 * What a family of chains is, without asking anybody: addresses, payloads, signed bytes. The rest of the service goes
 * through this and `ChainAdapter`, and never asks which family it has. The signers do not use it: they decode what they
 * sign by code of their own.
 */
export interface Family {
  readonly name: ChainFamily;
  /** Decimals of the coins that fees are paid in. */
  readonly feeDecimals: number;
  /** Why what is signed cannot be replaced or taken back, as a sentence; undefined where it can. */
  readonly irreplaceable: string | undefined;
  /** Why a wallet cannot pay itself, as a sentence; undefined where it can. */
  readonly selfPayment: string | undefined;
  /** The least that can be sent of the chain's own coin, in minor units: what is less stays where it is. */
  readonly leastAmountMinor: bigint;
  /** Number of the chain's coin in the paths of wallets. Source: SLIP-44. @param chain CAIP-2 id */
  coinType(chain: string): number;
  /** Whether a wallet has the same address on two chains of the family, and pays on both. @param a @param b CAIP-2 ids */
  sharesWallet(a: string, b: string): boolean;
  /**
   * Address of a child of an account's key, from public data alone. Source: BIP-32, public derivation (CKDpub).
   * @param p.publicKey uncompressed, 65 bytes in hex @param p.chainCode 32 bytes in hex
   * @param p.path without hardened steps, for example `m/44/60/0/0/7`
   */
  deriveAddress(p: { publicKey: `0x${string}`; chainCode: `0x${string}`; path: string; chain: string }): string;
  /** @param chain CAIP-2 id of the chain on which it is to be paid */
  readAddress(text: string, chain: string): ReadAddress;
  /**
   * The one transaction that carries out an intent.
   * @param p.former what the payment was to be before and of which nothing is stored, where that has become outdated
   */
  build(p: {
    intent: PaymentIntent;
    from: string;
    prepared: PreparedTransfer;
    places: Places;
    former?: TransactionPayload;
  }): Promise<BuildResult>;
  /**
   * Another transaction in the place of one that was built before: the same payment with higher fees, or one that pays nobody.
   * @param p.before what was built last; `isSigned`: whether anything was signed there before
   */
  replace(p: {
    before: TransactionPayload;
    isSigned: boolean;
    purpose: 'payment' | 'noop';
    from: string;
    terms: ReplacementTerms;
  }): ReplaceResult;
  /** From when on what was built can no longer be sent and has to be built anew, Unix milliseconds; undefined: never. */
  outdatedAtMs(payload: TransactionPayload): number | undefined;
  /** Whether what was built can no longer be sent, and has to be built anew. */
  isOutdated(payload: TransactionPayload, now: Date): boolean;
  /** The most that it may cost besides what it pays, in minor units of the native coin. */
  maxFeeOf(payload: TransactionPayload): bigint;
  /** Where it stands; see shared/domain/slot.ts. @param wallet address */
  slotOf(payload: TransactionPayload, wallet: string): string;
  /** Everything that is to be signed for it, in order. */
  toSign(payload: TransactionPayload): SignPayload[];
  /**
   * Joins it and its signatures (r | s | v, 65 bytes in hex, in the order of `toSign`) to the bytes that are sent.
   * @param p.from address of the wallet that signed
   */
  assemble(p: { payload: TransactionPayload; signatures: readonly `0x${string}`[]; from: string }): Signed;
  /** What bytes that a wallet signed are for: they pay somebody, or only use their place up. */
  purposeOf(raw: string, p: { from: string; chain: string }): 'payment' | 'noop';
  /** What signed bytes offer, as far as these tell; for attempts of earlier versions, which did not note it. */
  offerOf(raw: string): Offer;
}
