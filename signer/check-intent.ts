import type { PaymentIntent, ReceiptWallet, SignPayload, TransferAuthorization } from '../shared/domain/receipt.ts';
import { walletName } from './address.ts';
import type { Movement } from './movement/movement.ts';
import { readMovement } from './movement/read-movement.ts';
import { Refusal } from './refusal.ts';

/** Of EVM chains and of Tron, which burn what is sent there. On Bitcoin there is none. */
const zeroAddresses: readonly string[] = [`0x${'00'.repeat(20)}`, 'T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb'];

/**
 * Compares the wallet of a receipt with the key that was asked for.
 * @throws Refusal `intent_mismatch` naming the first difference
 */
export function checkWallet(allowed: ReceiptWallet, asked: { keyId: string; path: string; address: string }): void {
  expectEqual('wallet key id', allowed.key_id, asked.keyId);
  expectEqual('wallet path', allowed.path, asked.path);
  expectEqual('wallet address', walletName(allowed.address), walletName(asked.address));
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
  if (payload.kind !== 'transfer-authorization' && allowed.authorization) {
    throw new Refusal('intent_mismatch', 'the receipt allows an authorisation, no transaction');
  }
  checkMovement(allowed, { movement: readMovement(payload, wallet), wallet });
  if (payload.kind === 'transfer-authorization') checkAuthorization(allowed, payload.authorization);
}

/** Chain, asset, recipient, amount, and the most it may cost. */
function checkMovement(allowed: PaymentIntent, { movement, wallet }: { movement: Movement; wallet: string }): void {
  const { chain, asset, from = wallet, to, amountMinor, maxFeeMinor, feeUnit } = movement;
  expectEqual('chain', allowed.chain, chain);
  expectEqual('asset', walletName(allowed.asset), walletName(asset));
  expectEqual('payer', walletName(wallet), walletName(from));
  expectEqual('recipient', walletName(allowed.to), walletName(to));
  expectEqual('amount', allowed.amount_minor, amountMinor.toString());
  if (zeroAddresses.includes(walletName(to))) {
    throw new Refusal('intent_mismatch', 'recipient is the zero address, which is never paid');
  }
  if (maxFeeMinor > BigInt(allowed.max_fee_minor)) {
    throw new Refusal(
      'intent_mismatch',
      `fee of up to ${maxFeeMinor} ${feeUnit} is above the receipt's ceiling ${allowed.max_fee_minor}`,
    );
  }
}

/** The one nonce and time: a receipt is never good for a second authorisation. */
function checkAuthorization(allowed: PaymentIntent, { validAfter, validBefore, nonce }: TransferAuthorization): void {
  expectEqual('nonce', allowed.authorization?.nonce ?? 'none', nonce);
  expectEqual('valid_after', String(allowed.authorization?.valid_after), String(validAfter));
  expectEqual('valid_before', String(allowed.authorization?.valid_before), String(validBefore));
}

function expectEqual(what: string, allowed: string, asked: string): void {
  if (allowed !== asked) throw new Refusal('intent_mismatch', `${what} is ${asked}, the receipt allows ${allowed}`);
}
