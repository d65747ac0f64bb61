import { z } from 'zod';
import type { HttpCall } from '../endpoints/http.ts';
import type { Known, Place } from './backend.ts';

// What Esplora's HTTP API answers, as far as it is read. Amounts are satoshis, as numbers: exact as long as they are
// safe integers, and all coins together are. Source: https://github.com/Blockstream/esplora/blob/master/API.md

const hash = z.string().regex(/^[0-9a-f]{64}$/);
const amount = z.int().nonnegative();
const status = z.object({
  confirmed: z.boolean(),
  block_height: amount.nullish(),
  block_hash: hash.nullish(),
});

export const hashAnswer = hash;
export const rawAnswer = z.string().regex(/^(?:[0-9a-f]{2})+$/);
export const blockAnswer = z.object({ id: hash, height: amount, previousblockhash: hash.nullish() });
export const hashesAnswer = z.array(hash);
export const transactionAnswer = z.object({ txid: hash, fee: amount, status });
export const spenderAnswer = z.object({ spent: z.boolean(), txid: hash.nullish(), status: status.nullish() });
export const addressAnswer = z.object({
  chain_stats: z.object({ funded_txo_sum: amount, spent_txo_sum: amount }),
});
export const coinsAnswer = z.array(z.object({ txid: hash, vout: amount, value: amount, status }));
/** A page of an address's history. */
export const historyAnswer = z.array(
  z.object({
    txid: hash,
    vin: z.array(z.object({ txid: hash.nullish(), vout: amount.nullish() })),
    vout: z.array(z.object({ scriptpubkey_address: z.string().nullish(), value: amount })),
    status,
  }),
);
/** Satoshis for a virtual byte, by the number of blocks within which a transaction is to be mined. */
export const estimatesAnswer = z.record(z.string().regex(/^\d{1,5}$/), z.number().positive());

/** @returns undefined for what waits in the mempool */
export function placeOf({ confirmed, block_height, block_hash }: z.output<typeof status>): Place | undefined {
  if (!confirmed || block_height == null || block_hash == null) return undefined;
  return { blockNumber: block_height, blockHash: block_hash };
}

export function readTransaction({ txid, fee, status: where }: z.output<typeof transactionAnswer>): Known {
  return { hash: txid, place: placeOf(where), feeSat: BigInt(fee) };
}

/** Asks for a path and checks what is answered; `null` where there is nothing. */
export type AskEsplora = <S extends z.ZodType>(schema: S, call: HttpCall) => Promise<z.output<S> | null>;
