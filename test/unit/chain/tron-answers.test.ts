import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readAccount, readBlock, readPlace, readPrices } from '../../../shared/chain/tron/answers.ts';
import { readInclusion } from '../../../shared/chain/tron/read-inclusion.ts';
import { readSimulated, readTokenAmount } from '../../../shared/chain/tron/simulate.ts';
import { publishedTransactions } from '../../support/tron-transactions.ts';

/** An answer of the testnet Nile. Source: github.com/tronprotocol/documentation-en, getblockbynum.md. */
const block = {
  blockID: '0000000003fe262d52bfa4b2814f816fd2e57af5b98a33d60d8630a03a908e0e',
  block_header: {
    raw_data: {
      number: 66_987_565,
      txTrieRoot: 'faf8fe3858339ead25cc892461c82a59b84dca4a51c45b026676bf3f45a352a2',
      witness_address: '41b2f713d57dbcec679d93a8849fa0cd0e4db594ba',
      parentHash: '0000000003fe262c85cd6b02033f4c3e5c1efa35de256a17bd906dc61fb1aeed',
      version: 34,
      timestamp: 1_777_445_121_000,
    },
    witness_signature: '5b3cf6cb',
  },
};
const usdt = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';
const [plain, call] = ['native', usdt].map((asset) => publishedTransactions.find((each) => each.asset === asset)!);
const word = (hex: string) => hex.padStart(64, '0');
const event = {
  address: 'a614f803b6fd780986a42c78ec9c7f77e6ded13c',
  topics: [
    'ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef',
    ...[call!.owner, call!.to].map((address) => word(address.slice(2))),
  ],
  data: word(call!.amountMinor.toString(16)),
};
/** Of a call of USDT, whose `transfer` returns false. Source of the form: github.com/andelf/tronpy/issues/3. */
const info = {
  id: call!.id,
  fee: 146_310,
  blockNumber: 66_987_565,
  blockTimeStamp: 1_600_078_473_000,
  contractResult: ['0000000000000000000000000000000000000000000000000000000000000000'],
  contract_address: '41a614f803b6fd780986a42c78ec9c7f77e6ded13c',
  receipt: { energy_fee: 146_310, energy_usage_total: 14_631, net_usage: 383, result: 'SUCCESS' },
  log: [event],
};
const plainInfo = { ...info, id: plain!.id, contract_address: undefined, log: undefined };
const transactions = [plain, call].map((each) => ({ txID: each!.id, raw_data_hex: each!.rawData }));
const holding = { ...block, transactions };

describe('answers of full nodes', () => {
  it('reads a block, with the hashes of what is in it', () => {
    expect(readBlock(holding)).toEqual({
      number: 66_987_565,
      hash: block.blockID,
      parentHash: block.block_header.raw_data.parentHash,
      transactionHashes: [plain!.id, call!.id],
      timestampMs: 1_777_445_121_000,
    });
  });

  it('reads the first block of the mainnet, whose number and time are left out', () => {
    const blockID = '00000000000000001ebf88508a03865c71d452e25f4d51194196a1d22b6653dc';
    const parentHash = 'e58f33f9baf9305dc6f82b9f1934ea8f0ade2defb951258d50167028c780351f';
    expect(readBlock({ blockID, block_header: { raw_data: { parentHash } } })).toMatchObject({ number: 0 });
  });

  it('reads no block whose id is not of its number', () => {
    const other = { raw_data: { ...block.block_header.raw_data, number: 66_987_566 } };
    expect(readBlock({ ...block, block_header: other })).toBeUndefined();
  });

  const other = (change: Partial<typeof event>) => ({ ...event, ...change });
  it.each<[string, object, boolean]>([
    ['a call', info, true],
    ['a call that left more than one event', { ...info, log: [other({ topics: [] }), event] }, true],
    ['a call of a token that takes its fee out of the amount', { ...info, log: [other({ data: word('1') })] }, true],
    ['a call that was reverted', { ...info, result: 'FAILED', receipt: { result: 'REVERT' } }, false],
    ['a call without energy', { ...info, result: 'FAILED', receipt: { result: 'OUT_OF_ENERGY' } }, false],
    ['a call that is said to have failed', { ...info, result: 'FAILED' }, false],
    ['a call that does not say how it ended', { ...info, receipt: {} }, false],
    ['a call that moved nothing', { ...info, log: undefined }, false],
    ['a call of which another contract says so', { ...info, log: [other({ address: 'b'.repeat(40) })] }, false],
    ['a call that said something else', { ...info, log: [other({ topics: event.topics.with(0, word('1')) })] }, false],
    ['a call that took from another', { ...info, log: [other({ topics: event.topics.with(1, word('1')) })] }, false],
    ['a call that gave to another', { ...info, log: [other({ topics: event.topics.with(2, word('1')) })] }, false],
    ['a plain transfer', { ...plainInfo, receipt: { net_usage: 267 } }, true],
    ['a plain transfer without a receipt', { ...plainInfo, receipt: undefined }, true],
  ])('reads what became of %s', (_, said, succeeded) => {
    expect(readInclusion({ info: said, block: holding })).toEqual({
      ...{ hash: (said as typeof info).id, blockNumber: 66_987_565, blockHash: block.blockID },
      ...{ succeeded, feeMinor: 146_310n },
    });
  });

  it('does not take for undone what it cannot read', () => {
    for (const address of [usdt, undefined, `0x${event.address}`])
      expect(readInclusion({ info: { ...info, log: [{ ...event, address }] }, block: holding })).toBeUndefined();
    for (const raw_data_hex of [undefined, '', 'ff', plain!.rawData])
      expect(
        readInclusion({ info, block: { ...block, transactions: [{ txID: call!.id, raw_data_hex }] } }),
      ).toBeUndefined();
  });

  it('reads no inclusion in a block that does not hold it', () => {
    expect(readInclusion({ info, block })).toBeUndefined();
    expect(readInclusion({ info: { ...info, blockNumber: 66_987_566 }, block: holding })).toBeUndefined();
    expect(readInclusion({ info: { ...info, fee: -1 }, block: holding })).toBeUndefined();
    expect(readInclusion({ info: { ...info, fee: 2 ** 60 }, block: holding })).toBeUndefined();
  });

  it('reads a fee that was left out as none', () => {
    expect(readInclusion({ info: { ...info, fee: undefined }, block: holding })).toMatchObject({ feeMinor: 0n });
  });

  it('reads accounts, and that there is none', () => {
    const address = '41dd791d6b49e190062d650e6a23c575510d35f2f9';
    expect(readAccount({ address, balance: 1_793_227_200 })).toEqual({
      ...{ isActive: true, isContract: false, balanceSun: 1_793_227_200n },
    });
    expect(readAccount({ address, type: 'Contract' })).toMatchObject({ isContract: true, balanceSun: 0n });
    expect(readAccount(null)).toEqual({ isActive: false, isContract: false, balanceSun: 0n });
    // It was rounded when it was parsed.
    expect(readAccount({ address, balance: 2 ** 53 })).toBeUndefined();
  });

  it('reads prices, and none where one is missing', () => {
    const chainParameter = [
      { key: 'getTransactionFee', value: 1_000 },
      { key: 'getEnergyFee', value: 100 },
      { key: 'getCreateAccountFee', value: 100_000 },
      { key: 'getCreateNewAccountFeeInSystemContract', value: 1_000_000 },
      { key: 'getAllowUpdateAccountName' },
    ];
    const prices = { sunPerByte: 1_000n, sunPerEnergy: 100n, newAccountSun: 1_100_000n };
    expect(readPrices({ chainParameter })).toEqual(prices);
    for (const missing of [0, 1, 2, 3])
      expect(readPrices({ chainParameter: chainParameter.toSpliced(missing, 1) })).toBeUndefined();
  });

  it('reads simulated calls', () => {
    const returned = '0000000000000000000000000000000000000000000000000000000040cfcc00';
    const done = { result: { result: true }, energy_used: 935, constant_result: [returned] };
    expect(readSimulated({ ...done, transaction: { ret: [{}] } })).toEqual({ ok: true, energy: 935n, returned });
    expect(readTokenAmount({ returned })).toBe(1_087_360_000n);
    expect(readTokenAmount({ returned: '' })).toBeUndefined();
    const reverted = { result: { result: true, message: Buffer.from('REVERT opcode executed').toString('hex') } };
    const failed = { ...done, ...reverted, transaction: { ret: [{ ret: 'FAILED' }] } };
    expect(readSimulated({ ...failed, constant_result: [''] })).toEqual({
      ...{ ok: false, reason: 'REVERT opcode executed' },
    });
    // Error(string) of a contract.
    const text = Buffer.from('Paused').toString('hex').padEnd(64, '0');
    const reason = `08c379a0${word('20')}${word('6')}${text}`;
    expect(readSimulated({ ...failed, constant_result: [reason] })).toEqual({ ok: false, reason: 'Paused' });
    expect(
      readSimulated({ result: { code: 'CONTRACT_VALIDATE_ERROR', message: 'Smart contract is not exist.' } }),
    ).toEqual({ ok: false, reason: 'Smart contract is not exist.' });
    for (const message of ['this node does not support constant', 'class java.lang.Exception : null'])
      expect(readSimulated({ result: { code: 'OTHER_ERROR', message } })).toBeUndefined();
  });

  it('throws at nothing, and takes nothing for what it is not', () => {
    const readers = [readBlock, readPlace, readPrices, readSimulated, readAccount];
    fc.assert(
      fc.property(fc.anything(), (answer) => {
        for (const read of readers) read(answer);
        readInclusion({ info: answer, block: holding });
        expect(readInclusion({ info, block: answer })).toBeUndefined();
      }),
    );
  });
});
