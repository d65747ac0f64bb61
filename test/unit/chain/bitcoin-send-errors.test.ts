import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  meaningOfSendError,
  reasonOf,
  type SendMeaning,
  wantedFeeOf,
} from '../../../shared/chain/bitcoin/send-errors.ts';

/** Word for word, as Bitcoin Core (validation.cpp, common/messages.cpp) and btcd (mempool.go, validate.go) say it. */
const texts: Readonly<Record<SendMeaning, readonly string[]>> = {
  known: [
    'txn-already-in-mempool',
    'txn-same-nonwitness-data-in-mempool',
    'txn-already-known',
    'Transaction already in block chain',
    'Transaction outputs already in utxo set',
    `TX rejected: already have transaction in mempool ${'ab'.repeat(32)}`,
    'TX rejected: transaction already exists in blockchain',
  ],
  slot_taken: [
    'bad-txns-inputs-missingorspent',
    'Missing inputs',
    'missing-inputs',
    'Inputs missing or spent',
    'txn-mempool-conflict',
    'bip125-replacement-disallowed',
    `insufficient fee, rejecting replacement ${'ab'.repeat(32)}, less fees than conflicting txs; 0.00000141 < 0.00000282`,
    `insufficient fee, rejecting replacement ${'ab'.repeat(32)}; new feerate 0.00001 BTC/kvB <= old feerate 0.00002 BTC/kvB`,
    'replacement-failed, insufficient feerate: does not improve feerate diagram',
    'replacement-adds-unconfirmed',
    `TX rejected: orphan transaction ${'ab'.repeat(32)} references outputs of unknown or fully-spent transaction ${'cd'.repeat(32)}`,
    `TX rejected: output already spent in mempool: output=${'ab'.repeat(32)}:0, tx=${'cd'.repeat(32)}`,
    `TX rejected: ${'ab'.repeat(32)}: replacement transaction has an insufficient fee rate: needs more than 2000, has 2000`,
    `TX rejected: ${'ab'.repeat(32)}: replacement transaction has an insufficient absolute fee: needs 423, has 300`,
  ],
  underpriced: [
    'min relay fee not met, 20 < 141',
    'mempool min fee not met, 141 < 500',
    'mempool full',
    `TX rejected: transaction ${'ab'.repeat(32)} has 141 fees which is under the required amount of 2820`,
    `TX rejected: transaction ${'ab'.repeat(32)} has insufficient priority (12 <= 576000000)`,
    `TX rejected: transaction ${'ab'.repeat(32)} has been rejected by the rate limiter due to low fees`,
  ],
  busy: [
    'too-long-mempool-chain, too many unconfirmed ancestors [limit: 25]',
    'non-BIP68-final',
    'bad-txns-premature-spend-of-coinbase, tried to spend coinbase at depth 5',
    `TX rejected: tried to spend coinbase transaction output ${'ab'.repeat(32)}:0 from height 20 at height 21 before required maturity of 100 blocks`,
    'Request failed: cannot connect to the daemon',
    'what nobody has said before',
    '',
  ],
  refused: [
    'TX decode failed. Make sure the tx has at least one input.',
    'TX decode failed: unexpected EOF',
    'mandatory-script-verify-flag-failed (Signature must be zero for failed CHECK(MULTI)SIG operation)',
    'mempool-script-verify-flag-failed (Witness program hash mismatch)',
    'bad-txns-in-belowout, value in (0.01) < value out (0.02)',
    'bad-witness-nonstandard',
    'dust',
    'dust, tx with dust output must be 0-fee',
    'scriptpubkey',
    'tx-size',
    'version',
    'Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)',
    `TX rejected: failed to validate input ${'ab'.repeat(32)}:0 which references output ${'cd'.repeat(32)}:0 - signature not empty on failed checksig`,
    `TX rejected: transaction ${'ab'.repeat(32)} is not standard: transaction output 0: payment is dust: 293`,
    `TX rejected: total value of all transaction inputs for transaction ${'ab'.repeat(32)} is 1 which is less than the amount spent of 2`,
  ],
};

describe('what nodes say of a Bitcoin transaction', () => {
  const all = Object.entries(texts).flatMap(([meaning, said]) => said.map((text) => [text, meaning] as const));
  it.each(all)('%s: %s', (text, meaning) => {
    expect(meaningOfSendError(text)).toBe(meaning);
    const wrapped = `sendrawtransaction RPC error: ${JSON.stringify({ code: -26, message: text })}`;
    expect(meaningOfSendError(wrapped)).toBe(meaning);
    expect(reasonOf(wrapped)).toBe(text);
  });

  it.each([
    ['min relay fee not met, 20 < 141', 141n],
    ['mempool min fee not met, 141 < 500', 500n],
    [`TX rejected: transaction ${'12'.repeat(32)} has 141 fees which is under the required amount of 2820`, 2820n],
    [`TX rejected: transaction ${'12'.repeat(32)} has insufficient priority (12 <= 576000000)`, undefined],
    ['mempool full', undefined],
    [`min relay fee not met, 20 < ${'9'.repeat(17)}`, undefined],
  ])('reads from "%s" that the fee would have to be %s', (text, wantedSat) => {
    expect(wantedFeeOf(text)).toBe(wantedSat);
    expect(wantedFeeOf(`sendrawtransaction RPC error: ${JSON.stringify({ code: -26, message: text })}`)).toBe(
      wantedSat,
    );
  });

  it('ends no payment for words that it does not know', () => {
    const letters = fc.string({ unit: fc.constantFrom('q', 'w', 'z', ' ', '-', '"', '\\', '1'), maxLength: 60 });
    fc.assert(fc.property(letters, (text) => meaningOfSendError(text) === 'busy'));
  });
});
