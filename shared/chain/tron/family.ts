import type { TransactionPayload, TronTransaction } from '../../domain/receipt.ts';
import { expiringSlot } from '../../domain/slot.ts';
import type { Family, Offer } from '../family.ts';
import { parseTronAddress } from './address.ts';
import { assemble } from './assemble.ts';
import { buildTransfer } from './build-transfer.ts';
import { deriveTronAddress } from './derive-address.ts';
import type { TronPrepared } from './prepared.ts';
import { transactionId } from './raw-data.ts';
import { readSigned } from './read-signed.ts';

/** Source: SLIP-44. */
const tronCoinType = 195;

/** What has less time than this left is not sent any more: signing, sending and the next blocks take a while. */
const leastTimeLeftMs = 30_000;

/** Tron: one address on all its chains; a transaction has no nonce, cannot be replaced, and expires. */
export const tronFamily: Family = {
  name: 'tron',
  feeDecimals: 6,
  irreplaceable:
    'A signed transaction on Tron can be neither replaced nor taken back: a block takes it within minutes, or it expires and pays nobody.',
  selfPayment: 'Tron refuses it.',
  leastAmountMinor: 1n,
  coinType: () => tronCoinType,
  sharesWallet: () => true,
  deriveAddress: deriveTronAddress,
  readAddress: parseTronAddress,
  async build({ intent, from, prepared, former }) {
    const terms = prepared as TronPrepared;
    // Whoever has the former one can still send it: both would be carried out.
    if (former && !isOver(tronOf(former), terms)) return { outcome: 'unprepared' };
    const transaction = buildTransfer({ intent, from, prepared: terms });
    return { outcome: 'built', payload: { kind: 'tron-transaction', transaction }, nonce: null, coins: [] };
  },
  replace({ before }) {
    const until = new Date(tronOf(before).expirationMs).toISOString();
    return {
      refusal: `A transaction on Tron can be neither replaced nor taken back. If no block has taken it by ${until}, it expires and pays nobody.`,
    };
  },
  outdatedAtMs: (payload) => tronOf(payload).expirationMs - leastTimeLeftMs,
  isOutdated: (payload, now) => tronOf(payload).expirationMs - now.getTime() < leastTimeLeftMs,
  maxFeeOf(payload) {
    const { feeLimitSun, bandwidthSun } = tronOf(payload);
    return BigInt(feeLimitSun) + BigInt(bandwidthSun);
  },
  slotOf(payload, wallet) {
    const transaction = tronOf(payload);
    return expiringSlot({ chain: transaction.chain, wallet, hash: transactionId(transaction) });
  },
  toSign: (payload) => [{ kind: 'tron-transaction', transaction: tronOf(payload) }],
  assemble({ payload, signatures }) {
    const { raw, hash } = assemble({ transaction: tronOf(payload), signature: signatures[0]! });
    return { raw, hash, offer: offerOf(raw) };
  },
  // Nothing is signed there only to use a place up: there are none.
  purposeOf: () => 'payment',
  offerOf,
};

function tronOf(payload: TransactionPayload): TronTransaction {
  if (payload.kind !== 'tron-transaction') throw new TypeError(`A ${payload.kind} is none of Tron.`);
  return payload.transaction;
}

/** Blocks after one of this time take it no more, and none up to that one had it. Source: java-tron, `validateCommon`. */
function isOver(former: TronTransaction, { formerAbsentAtMs }: TronPrepared): boolean {
  return formerAbsentAtMs !== null && formerAbsentAtMs >= former.expirationMs;
}

function offerOf(raw: string): Offer {
  const { expirationMs } = readSigned(raw).transaction;
  const expires_at = new Date(expirationMs).toISOString();
  return { max_fee_per_gas: null, max_priority_fee_per_gas: null, fee_rate: null, expires_at };
}
