import { decodeFunctionData, encodeFunctionData, erc20Abi, type Hex, isAddressEqual, zeroAddress } from 'viem';
import type {
  EvmTransaction,
  PaymentIntent,
  ReceiptWallet,
  SignPayload,
  TransferAuthorization,
} from '../shared/domain/receipt.ts';
import { Refusal } from './refusal.ts';

/** What a transaction does, read from its own bytes. */
export interface Movement {
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
 * Compares what is to be signed with what the receipt allows.
 * @param wallet address of the wallet that pays
 * @throws Refusal `intent_mismatch` naming the first difference; `unsupported_call` for anything but the two transfers
 */
export function checkIntent(
  allowed: PaymentIntent,
  { payload, wallet }: { payload: SignPayload; wallet: string },
): void {
  if (payload.kind === 'evm-transaction') checkTransaction(allowed, payload.transaction);
  else checkAuthorization(allowed, { authorization: payload.authorization, wallet });
}

/** Chain, asset, recipient, amount, and the one nonce and time: a receipt is never good for a second authorisation. */
function checkAuthorization(
  allowed: PaymentIntent,
  { authorization, wallet }: { authorization: TransferAuthorization; wallet: string },
): void {
  const { domain, from, to, value, validAfter, validBefore, nonce } = authorization;
  expectEqual('chain', allowed.chain, `eip155:${domain.chainId}`);
  expectEqual('asset', allowed.asset.toLowerCase(), domain.verifyingContract.toLowerCase());
  expectEqual('payer', wallet.toLowerCase(), from.toLowerCase());
  expectEqual('recipient', allowed.to.toLowerCase(), to.toLowerCase());
  expectEqual('amount', allowed.amount_minor, value);
  refuseZero(to);
  expectEqual('nonce', allowed.authorization?.nonce ?? 'none', nonce);
  expectEqual('valid_after', String(allowed.authorization?.valid_after), String(validAfter));
  expectEqual('valid_before', String(allowed.authorization?.valid_before), String(validBefore));
}

/** Chain, asset, recipient, amount, and the most it may cost. */
function checkTransaction(allowed: PaymentIntent, tx: EvmTransaction): void {
  if (allowed.authorization)
    throw new Refusal('intent_mismatch', 'the receipt allows an authorisation, no transaction');
  const movement = readMovement(tx);
  expectEqual('chain', allowed.chain, `eip155:${tx.chainId}`);
  expectEqual('asset', allowed.asset.toLowerCase(), movement.asset.toLowerCase());
  expectEqual('recipient', allowed.to.toLowerCase(), movement.to.toLowerCase());
  expectEqual('amount', allowed.amount_minor, movement.amountMinor.toString());
  refuseZero(movement.to);
  const feeWei = BigInt(tx.gas) * BigInt(tx.maxFeePerGasWei);
  if (feeWei > BigInt(allowed.max_fee_minor)) {
    throw new Refusal(
      'intent_mismatch',
      `fee of up to ${feeWei} wei is above the receipt's ceiling ${allowed.max_fee_minor}`,
    );
  }
}

function refuseZero(to: Hex): void {
  if (isAddressEqual(to, zeroAddress))
    throw new Refusal('intent_mismatch', 'recipient is the zero address, which is never paid');
}

/**
 * A native transfer has no call data. A token transfer has value 0 and exactly `transfer(address,uint256)`, encoded the
 * one canonical way: decoding and encoding again must give the same bytes, so no dirty padding and no trailing bytes.
 * @throws Refusal `unsupported_call`
 */
export function readMovement(tx: EvmTransaction): Movement {
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
