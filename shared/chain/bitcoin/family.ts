import type { BitcoinTransaction, TransactionPayload } from '../../domain/receipt.ts';
import { coinSlot } from '../../domain/slot.ts';
import type { Family, Offer } from '../family.ts';
import { assemble } from './assemble.ts';
import { buildTransfer } from './build-transfer.ts';
import { deriveBitcoinAddress } from './derive-address.ts';
import { networkOf } from './network.ts';
import { parseBitcoinAddress } from './parse-address.ts';
import type { BitcoinPrepared, BitcoinReplacementTerms } from './prepared.ts';
import { purposeOf } from './read-signed.ts';
import { feeOf, replaceTransfer } from './replace-transfer.ts';

/** Bitcoin and its test networks: each has addresses of its own; a payment's place is the coins that it spends. */
export const bitcoinFamily: Family = {
  name: 'bitcoin',
  feeDecimals: 8,
  irreplaceable: undefined,
  selfPayment: 'On Bitcoin it would move nothing and cost a fee.',
  // What is dust for the cheapest kind of address (P2WPKH) is dust for all.
  leastAmountMinor: 294n,
  coinType: (chain) => networkOf(chain).coinType,
  sharesWallet: (a, b) => a === b,
  deriveAddress: deriveBitcoinAddress,
  readAddress: parseBitcoinAddress,
  build: ({ prepared, ...p }) => buildTransfer({ ...p, prepared: prepared as BitcoinPrepared }),
  replace: ({ before, terms, ...p }) =>
    replaceTransfer({ ...p, before: bitcoinOf(before), terms: terms as BitcoinReplacementTerms }),
  outdatedAtMs: () => undefined,
  isOutdated: () => false,
  maxFeeOf: (payload) => feeOf(bitcoinOf(payload)),
  slotOf(payload) {
    const { chain, inputs } = bitcoinOf(payload);
    return coinSlot({ chain, ...inputs[0]! });
  },
  toSign(payload) {
    const transaction = bitcoinOf(payload);
    return transaction.inputs.map((_, input) => ({ kind: 'bitcoin-input', input, transaction }));
  },
  assemble: ({ payload, ...p }) => assemble({ ...p, transaction: bitcoinOf(payload) }),
  purposeOf,
  offerOf: () => nothingOffered,
};

/** The bytes say nothing of what their coins hold, and so nothing of the fee. */
const nothingOffered: Offer = {
  max_fee_per_gas: null,
  max_priority_fee_per_gas: null,
  fee_rate: null,
  expires_at: null,
};

function bitcoinOf(payload: TransactionPayload): BitcoinTransaction {
  if (payload.kind !== 'bitcoin-transaction') throw new TypeError(`A ${payload.kind} is none of a Bitcoin chain.`);
  return payload.transaction;
}
