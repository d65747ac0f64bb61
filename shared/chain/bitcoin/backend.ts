import type { Block } from '../adapter.ts';
import type { Coin } from '../family.ts';
import type { BitcoinCoin } from './prepared.ts';

/** A block that a transaction is in. */
export interface Place {
  readonly blockNumber: number;
  readonly blockHash: string;
}

/** What a node says about a transaction that it holds. */
export interface Known {
  readonly hash: string;
  /** Undefined while it waits in the mempool. */
  readonly place: Place | undefined;
  /** Satoshis. */
  readonly feeSat: bigint;
}

/** What an address holds, all as of one block. */
export interface Holdings {
  readonly block: { readonly number: number; readonly hash: string };
  /** Satoshis of all confirmed coins, those included that are being spent in the mempool. */
  readonly confirmedSat: bigint;
  /** Satoshis of those that nobody is spending: of all of them, not only of `coins`. */
  readonly freeSat: bigint;
  /** Confirmed coins that nobody spends, in the mempool neither; the largest first, at most {@link maxCoins}. */
  readonly coins: readonly BitcoinCoin[];
}

/** So many coins of a wallet are read: with payments of fifty at most, enough for several at once. */
export const maxCoins = 200;

/**
 * One server that knows the chain, as the adapter needs it. Esplora's HTTP API is one (esplora-backend.ts); Bitcoin Core
 * with a watch-only descriptor wallet could be another. `null` means that something is not there.
 * Every method throws what the judge of its driver can judge.
 */
export interface BitcoinBackend {
  /** Hash of the first block, which names the chain (BIP-122). */
  genesis(): Promise<string>;
  newestBlock(): Promise<Block>;
  /** Of the canonical chain. */
  blockAt(number: number): Promise<Block | null>;
  transaction(hash: string): Promise<Known | null>;
  /** Signed bytes of a transaction, in hex. */
  raw(hash: string): Promise<string | null>;
  /** What spends a coin, waiting or mined. */
  spender(coin: Coin): Promise<{ readonly hash: string; readonly place: Place | undefined } | null>;
  holdings(address: string): Promise<Holdings>;
  /** Satoshis for a thousand virtual bytes that a transaction pays which is to be mined within so many blocks. */
  feeRate(p: { withinBlocks: number }): Promise<bigint | null>;
  /** Hands signed bytes to the network. @param raw in hex @returns their hash */
  broadcast(raw: string): Promise<string>;
}

/** A question to a server, in the terms of the interface. */
export type BitcoinCall = (backend: BitcoinBackend) => Promise<unknown>;
