import type { Hex, RpcTransactionReceipt } from 'viem';
import type { Inclusion } from '../adapter.ts';
import type { EvmClient } from './client.ts';
import { ask } from './rpc.ts';

/** What OP-stack chains add for having the transaction published on Ethereum. Source: OP Stack, fees specification. */
type ReceiptWithL1Fee = RpcTransactionReceipt & { readonly l1Fee?: Hex };

/** What of these transactions is in a block, asked for at once. @throws RpcUnavailable */
export async function inclusions(client: EvmClient, { hashes }: { hashes: readonly string[] }): Promise<Inclusion[]> {
  const receipts = await Promise.all(
    hashes.map((hash) => ask(client.request({ method: 'eth_getTransactionReceipt', params: [hash as Hex] }))),
  );
  return receipts.flatMap((receipt) => (receipt?.blockHash ? [readReceipt(receipt)] : []));
}

/** The fee is what was spent, not what was offered: gas used at the price paid, and the L1 fee where there is one. */
export function readReceipt(receipt: ReceiptWithL1Fee): Inclusion {
  return {
    hash: receipt.transactionHash,
    blockNumber: Number(receipt.blockNumber),
    blockHash: receipt.blockHash,
    succeeded: receipt.status === '0x1',
    feeMinor: BigInt(receipt.gasUsed) * BigInt(receipt.effectiveGasPrice) + BigInt(receipt.l1Fee ?? 0),
  };
}
