import type { TransactionPayload } from '../domain/receipt.ts';
import type { Logger } from '../log.ts';
import type { EndpointWatch } from './endpoints/endpoint-watch.ts';
import type { Chain, Token } from './registry.ts';

/**
 * That a payment can be made, and what it may cost. JSON-safe: it travels through histories. Each family adds what it
 * builds the transaction from (shared/chain/<family>/prepared.ts); nobody else reads that.
 */
export interface PreparedTransfer {
  readonly outcome: 'ready';
  /** What the payment may cost at most besides its amount, in minor units of the native coin. */
  readonly maxFeeMinor: string;
  /** Block as of which both balances were read. */
  readonly atBlock: number;
  /** What the wallet holds of the token that is sent, in minor units. */
  readonly balanceMinor: string;
  /** What the wallet holds of the native coin, in minor units. */
  readonly nativeBalanceMinor: string;
}

/** A payment that cannot be made as things stand, in words for the one who asked for it. */
export interface PrepareFailure {
  readonly outcome: 'failed';
  readonly code: 'insufficient_funds' | 'simulation_failed';
  readonly message: string;
  readonly details: Readonly<Record<string, string>>;
  /** Block as of which the balance in `details` was read; only with `insufficient_funds`. */
  readonly atBlock?: number;
  /** Only money for the fee is missing: whoever keeps the wallet is expected to send some. */
  readonly mayPass?: true;
}

export type PrepareResult<P extends PreparedTransfer = PreparedTransfer> = P | PrepareFailure;

/** What another transaction in place of a signed one may cost now. JSON-safe; each family adds its prices. */
export interface ReplacementTerms {
  /** Block as of which the balance was read. */
  readonly atBlock: number;
  readonly nativeBalanceMinor: string;
}

/** A payment before it has fees and a nonce. */
export interface Transfer {
  readonly from: string;
  readonly to: string;
  readonly token: Token;
  readonly amountMinor: bigint;
}

/** What a wallet holds of a token, in minor units; or why that cannot be said. */
export type TokenBalance = { readonly token: Token } & ({ readonly amountMinor: bigint } | { readonly error: string });

/** A block, as far as confirmation needs it. */
export interface Block {
  readonly number: number;
  readonly hash: string;
  readonly parentHash: string;
  readonly transactionHashes: readonly string[];
}

/** What a chain says about a transaction that is in a block. */
export interface Inclusion {
  readonly hash: string;
  readonly blockNumber: number;
  readonly blockHash: string;
  readonly succeeded: boolean;
  /** What it cost, exactly, in minor units of the native coin. */
  readonly feeMinor: bigint;
}

/**
 * Where most of a chain's configured endpoints see a transaction.
 * - `included`: they agree on block, number, success and fee, and on that block being part of the chain.
 * - `absent`: they have passed the block in which it was seen, and have it nowhere.
 * - `undecided`: they disagree, or too few answered; a repeat may tell.
 */
export type AgreedInclusion = { readonly hash: string } & (
  | { readonly outcome: 'included'; readonly inclusion: Inclusion }
  | { readonly outcome: 'absent' | 'undecided' }
);

/**
 * What a node said when bytes were handed to it.
 * - `sent`: it has them, now or already before.
 * - `slot_taken`: another transaction stands at this nonce, mined or waiting; only the chain can tell which one wins.
 * - `unfunded`: the sender cannot pay the fee yet.
 * - `underpriced`: nodes ask for more just now than the bytes offer; `floor` is how much, in the family's own unit, where
 *   they have said so.
 * - `refused`: these bytes will never be taken; `reason` says why.
 */
export type SendResult =
  | { readonly outcome: 'sent' }
  | { readonly outcome: 'slot_taken' | 'unfunded' | 'refused'; readonly reason: string }
  | { readonly outcome: 'underpriced'; readonly reason: string; readonly floor?: string };

/** The transaction that the chain has mined at a nonce, whoever signed it. */
export interface SlotOwner {
  readonly inclusion: Inclusion;
  /** Its signed bytes; our own where the mined ones cannot be rebuilt. */
  readonly raw: string;
  /** Whether it does what our signed bytes do: same sender, nonce, recipient, value and data, whatever its signature. */
  readonly samePayment: boolean;
}

/** A transfer authorisation (EIP-3009) as far as its contract remembers it; times are Unix seconds. */
export interface AuthorizationSlot {
  /** Address of the contract. */
  readonly token: string;
  readonly authorizer: string;
  readonly nonce: string;
  readonly validAfter: number;
  readonly validBefore: number;
}

/** The transaction by which an authorisation was used. */
export interface AuthorizationUse {
  readonly token: string;
  readonly authorizer: string;
  readonly nonce: string;
  readonly txHash: string;
  readonly blockNumber: number;
  readonly blockHash: string;
}

/**
 * What the newest final block says about an authorisation.
 * - `used`: its money has moved, for good.
 * - `unused`: it has not up to that block; and cannot any more if `isOver`, for the block is later than `validBefore`.
 * - `undecided`: the endpoints disagree, or too few answered; a repeat may tell.
 */
export type AuthorizationStanding =
  | ({ readonly outcome: 'used' } & AuthorizationUse)
  | { readonly outcome: 'unused'; readonly isOver: boolean }
  | { readonly outcome: 'undecided' };

/**
 * One chain, as the activities see it. A family implements it; nothing of a family shows through but the typed unions.
 * Every method throws `RpcUnavailable` when no endpoint gives an answer; a repeat may succeed.
 */
export interface ChainAdapter<
  P extends PreparedTransfer = PreparedTransfer,
  R extends ReplacementTerms = ReplacementTerms,
> {
  readonly chain: Chain;
  /** How often the head is asked for while a payment waits. */
  readonly pollMs: number;
  /** Blocks after which a payment that none has taken offers more; undefined where nothing signed can be replaced. */
  readonly speedUpAfterBlocks: number | undefined;
  /**
   * Simulates the payment and says what it may cost.
   * @param former what the payment was to be before and of which nothing is stored, where that has become outdated
   * @throws FeeAboveCeiling, and RpcUnavailable also while the chain may still take `former`
   */
  prepare(transfer: Transfer, former?: TransactionPayload): Promise<PrepareResult<P>>;
  /**
   * What a replacement of a transaction of this address may cost.
   * @param p.floor what nodes asked for when they refused that one as too cheap; see {@link SendResult}
   */
  replacementTerms(p: { owner: string; floor?: string | undefined }): Promise<R>;
  /** What an address holds of every token of the chain, all as of one block. */
  balances(p: { owner: string }): Promise<{ readonly atBlock: number; readonly data: readonly TokenBalance[] }>;
  /**
   * What a usual transfer of a token costs at most now, in minor units of the native coin; undefined where there are no
   * tokens.
   */
  transferFee(): Promise<bigint | undefined>;
  send(p: { raw: string }): Promise<SendResult>;
  /** The newest block that most endpoints have reached. */
  head(): Promise<Block>;
  /**
   * Blocks of the canonical chain by number, as most endpoints show it; `undefined` where the chain is not that long
   * (yet, or any more).
   */
  blocks(p: { numbers: readonly number[] }): Promise<(Block | undefined)[]>;
  /** What of these is in a block of the canonical chain, as one endpoint has it: good for news, not for finality. */
  inclusions(p: { hashes: readonly string[] }): Promise<Inclusion[]>;
  /** What more than half of all configured endpoints say about transactions, each with the block it was seen in. */
  agreedInclusions(p: {
    placed: readonly { readonly hash: string; readonly blockNumber: number }[];
  }): Promise<AgreedInclusion[]>;
  /** Whether a node holds the transaction, mined or waiting. */
  knows(p: { hash: string }): Promise<boolean>;
  /**
   * What was mined where `raw` wanted to be, if that is `confirmations` deep and most endpoints say so.
   * `undefined`: the place is free, or what stands there is not final yet, or it lies too far back to be found.
   */
  slotOwner(p: { raw: string }): Promise<SlotOwner | undefined>;
  /**
   * Whether a transaction has expired, given by its signed bytes or, where these are nowhere, by what was to be signed:
   * most endpoints have a final block that is too late for it, and have it in none. Never true where transactions do not
   * expire.
   */
  isExpired(p: { raw: string } | { payload: TransactionPayload }): Promise<boolean>;
  /**
   * Which of these authorisations were used in a range of final blocks, as more than half of all configured endpoints
   * show it; `undefined` when too few have these blocks.
   */
  authorizationEvents(p: {
    tokens: readonly string[];
    nonces: readonly string[];
    fromBlock: number;
    toBlock: number;
  }): Promise<AuthorizationUse[] | undefined>;
  /** What more than half of all configured endpoints say about an authorisation. */
  authorizationStanding(slot: AuthorizationSlot): Promise<AuthorizationStanding>;
}

/** What an adapter is made of. */
export interface AdapterOptions {
  readonly chain: Chain;
  /** Endpoints in the order in which they are asked while they do equally well; may hold credentials. */
  readonly urls: readonly string[];
  /** The most that is paid for a unit of the chain's space, in the family's own unit; default: the chain's own. */
  readonly maxFee?: bigint | undefined;
  /** Default: the chain's own. */
  readonly speedUpAfterBlocks?: number | undefined;
  readonly logger?: Logger | undefined;
  /** Is told how the endpoints do. */
  readonly watch?: EndpointWatch | undefined;
}

/** The chains that this process serves, by CAIP-2 id. */
export type Chains = ReadonlyMap<string, ChainAdapter>;
