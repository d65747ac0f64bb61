import type { EvmTransaction, TransactionPayload } from '../../domain/receipt.ts';
import type { ReplaceResult } from '../family.ts';
import { buildNoop } from './build-transfer.ts';
import { chooseFees, type Fees, raiseFees } from './fees.ts';
import type { EvmReplacementTerms } from './prepared.ts';

/**
 * What is to be signed in place of a transaction at its nonce: the same with higher fees, or nothing at all. Pure.
 * @param p.isSigned whether anything was signed at this nonce before: then nodes take only what offers more
 */
export function replaceTransfer(p: {
  before: EvmTransaction;
  isSigned: boolean;
  purpose: 'payment' | 'noop';
  from: string;
  terms: EvmReplacementTerms;
}): ReplaceResult {
  const { before, purpose, from, terms } = p;
  const fees = feesFor(p);
  if (!fees)
    return {
      refusal: `Its transaction offers ${before.maxFeePerGasWei} wei for a unit of gas; a replacement would have to offer a tenth more, and the ceiling is ${terms.ceilingWei} wei.`,
    };
  const transaction =
    purpose === 'payment'
      ? { ...before, ...fees }
      : buildNoop({ chainId: before.chainId, address: from, nonce: before.nonce, fees });
  return { payload: { kind: 'evm-transaction', transaction } satisfies TransactionPayload };
}

function feesFor({
  before,
  isSigned,
  terms,
}: {
  before: EvmTransaction;
  isSigned: boolean;
  terms: EvmReplacementTerms;
}): { maxFeePerGasWei: string; maxPriorityFeePerGasWei: string } | undefined {
  const market = { baseFeeWei: BigInt(terms.baseFeeWei), tipWei: BigInt(terms.tipWei) };
  const ceilingWei = BigInt(terms.ceilingWei);
  const signed = {
    maxFeePerGasWei: BigInt(before.maxFeePerGasWei),
    maxPriorityFeePerGasWei: BigInt(before.maxPriorityFeePerGasWei),
  };
  const fees: Fees | undefined = isSigned
    ? raiseFees({ before: signed, ...market, ceilingWei })
    : market.baseFeeWei + market.tipWei > ceilingWei
      ? undefined
      : chooseFees({ chain: `eip155:${before.chainId}`, ...market, ceilingWei });
  return (
    fees && {
      maxFeePerGasWei: fees.maxFeePerGasWei.toString(),
      maxPriorityFeePerGasWei: fees.maxPriorityFeePerGasWei.toString(),
    }
  );
}
