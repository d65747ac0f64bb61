import type { Hex } from 'viem';
import type { EvmTransaction, TransactionPayload } from '../../domain/receipt.ts';
import { transactionSlot } from '../../domain/slot.ts';
import type { Family, Offer } from '../family.ts';
import { assemble } from './assemble.ts';
import { buildTransfer } from './build-transfer.ts';
import { deriveEvmAddress } from './derive-address.ts';
import { parseEvmAddress } from './parse-address.ts';
import type { EvmPrepared, EvmReplacementTerms } from './prepared.ts';
import { purposeOf, readSigned } from './read-signed.ts';
import { replaceTransfer } from './replace-transfer.ts';

/** Ether's number, which wallets use on every EVM chain. Source: SLIP-44. */
const etherCoinType = 60;

/** Chains of the Ethereum Virtual Machine: one key, one address on all of them; a nonce is a transaction's place. */
export const evmFamily: Family = {
  name: 'evm',
  feeDecimals: 18,
  irreplaceable: undefined,
  selfPayment: undefined,
  leastAmountMinor: 1n,
  coinType: () => etherCoinType,
  sharesWallet: () => true,
  deriveAddress: deriveEvmAddress,
  readAddress: parseEvmAddress,
  async build({ intent, prepared, places }) {
    const terms = prepared as EvmPrepared;
    const nonce = await places.nextNonce(terms.minedCount);
    const transaction = buildTransfer({ intent, nonce, prepared: terms });
    return { outcome: 'built', payload: { kind: 'evm-transaction', transaction }, nonce, coins: [] };
  },
  replace: ({ before, terms, ...rest }) =>
    replaceTransfer({ ...rest, before: evmOf(before), terms: terms as EvmReplacementTerms }),
  outdatedAtMs: () => undefined,
  isOutdated: () => false,
  maxFeeOf(payload) {
    const { gas, maxFeePerGasWei } = evmOf(payload);
    return BigInt(gas) * BigInt(maxFeePerGasWei);
  },
  slotOf: (payload, wallet) => transactionSlot({ ...evmOf(payload), wallet }),
  toSign: (payload) => [{ kind: 'evm-transaction', transaction: evmOf(payload) }],
  assemble({ payload, signatures }) {
    const { raw, hash } = assemble({ transaction: evmOf(payload), signature: signatures[0] as Hex });
    return { raw, hash, offer: offerOf(raw) };
  },
  purposeOf,
  offerOf,
};

function evmOf(payload: TransactionPayload): EvmTransaction {
  if (payload.kind !== 'evm-transaction') throw new TypeError(`A ${payload.kind} is none of an EVM chain.`);
  return payload.transaction;
}

function offerOf(raw: string): Offer {
  const { maxFeePerGasWei, maxPriorityFeePerGasWei } = readSigned(raw);
  return {
    max_fee_per_gas: maxFeePerGasWei.toString(),
    max_priority_fee_per_gas: maxPriorityFeePerGasWei.toString(),
    fee_rate: null,
    expires_at: null,
  };
}
