import { decodeFunctionData, encodeFunctionData, erc20Abi, type Hex, isAddressEqual, zeroAddress } from 'viem';
import type { EvmTransaction, PaymentIntent, ReceiptWallet } from '../shared/domain/receipt.ts';
import { Refusal } from './refusal.ts';

/** What a transaction does, read from its own bytes. */
interface Movement {
  asset: 'native' | Hex;
  to: Hex;
  amountMinor: bigint;
}

/**
 * Compares the wallet of a receipt with the key that was asked for.
 * @throws Refusal `intent_mismatch` naming the first difference
 */
export function checkWallet(allowed: ReceiptWallet, asked: { keyId: string; path: string; address: string }): void {
  expectEqual('wallet key id', allowed.key_id, asked.keyId);
  expectEqual('wallet path', allowed.path, asked.path);
  expectEqual('wallet address', allowed.address.toLowerCase(), asked.address.toLowerCase());
}

/**
 * Compares a transaction with what the receipt allows: chain, asset, recipient, amount, and the most it may cost.
 * @throws Refusal `intent_mismatch` naming the first difference; `unsupported_call` for anything but the two transfers
 */
export function checkIntent(allowed: PaymentIntent, tx: EvmTransaction): void {
  const movement = readMovement(tx);
  expectEqual('chain', allowed.chain, `eip155:${tx.chainId}`);
  expectEqual('asset', allowed.asset.toLowerCase(), movement.asset.toLowerCase());
  expectEqual('recipient', allowed.to.toLowerCase(), movement.to.toLowerCase());
  expectEqual('amount', allowed.amount_minor, movement.amountMinor.toString());
  if (isAddressEqual(movement.to, zeroAddress)) {
    throw new Refusal('intent_mismatch', 'recipient is the zero address, which is never paid');
  }
  const feeWei = BigInt(tx.gas) * BigInt(tx.maxFeePerGasWei);
  if (feeWei > BigInt(allowed.max_fee_minor)) {
    throw new Refusal(
      'intent_mismatch',
      `fee of up to ${feeWei} wei is above the receipt's ceiling ${allowed.max_fee_minor}`,
    );
  }
}

/**
 * A native transfer has no call data. A token transfer has value 0 and exactly `transfer(address,uint256)`, encoded the
 * one canonical way: decoding and encoding again must give the same bytes, so no dirty padding and no trailing bytes.
 */
function readMovement(tx: EvmTransaction): Movement {
  if (tx.data === '0x') return { asset: 'native', to: tx.to, amountMinor: BigInt(tx.valueWei) };
  if (tx.valueWei !== '0') {
    throw new Refusal('unsupported_call', `a token transfer carries value 0, this one carries ${tx.valueWei} wei`);
  }
  const args = decodeTransfer(tx.data);
  if (!args || encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args }) !== tx.data) {
    throw new Refusal(
      'unsupported_call',
      'call data is not exactly transfer(address,uint256); no other call is signed',
    );
  }
  return { asset: tx.to, to: args[0], amountMinor: args[1] };
}

function decodeTransfer(data: Hex): readonly [Hex, bigint] | undefined {
  try {
    const call = decodeFunctionData({ abi: erc20Abi, data });
    return call.functionName === 'transfer' ? call.args : undefined;
  } catch {
    return undefined;
  }
}

function expectEqual(what: string, allowed: string, asked: string): void {
  if (allowed !== asked) throw new Refusal('intent_mismatch', `${what} is ${asked}, the receipt allows ${allowed}`);
}
