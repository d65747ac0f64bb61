import { describe, expect, it } from 'vitest';
import { writeTronAddress } from '../../../shared/chain/tron/address.ts';
import { assemble } from '../../../shared/chain/tron/assemble.ts';
import { rawDataOf, transactionId } from '../../../shared/chain/tron/raw-data.ts';
import { readSigned } from '../../../shared/chain/tron/read-signed.ts';
import { readTransaction, signerOf } from '../../support/tron-bytes.ts';
import { publishedTransactions } from '../../support/tron-transactions.ts';

const bytesOf = (hex: string) => new Uint8Array(Buffer.from(hex, 'hex'));
const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const addressOf = (hex: string) => writeTronAddress(bytesOf(hex));

/** The message `Transaction` around raw data and a signature: fields 1 and 2, both length-delimited. */
function messageOf({ rawData, signature }: { rawData: string; signature: string }): string {
  const length = rawData.length / 2;
  const size = length < 128 ? [length] : [(length & 0x7f) | 0x80, length >> 7];
  return `0a${hexOf(Uint8Array.from(size))}${rawData}1241${signature}`;
}

describe.each(publishedTransactions)('a published transaction of the mainnet, $id', (published) => {
  const { id, rawData, signature, asset, amountMinor, netUsage } = published;
  const [owner, to] = [addressOf(published.owner), addressOf(published.to)];
  const message = messageOf(published);

  it('says what its source says', () => {
    const read = readSigned(message);
    expect(read).toMatchObject({ hash: id, asset, to, amountMinor, transaction: { from: owner } });
    expect(hexOf(read.signature)).toBe(signature);
  });

  it('is the same bytes again, with the same id, when encoded from what was read', () => {
    const { transaction } = readSigned(message);
    expect(hexOf(rawDataOf(transaction).serializeBinary())).toBe(rawData);
    expect(transactionId(transaction)).toBe(id);
  });

  it('was signed by its owner over that id, and comes out whole when joined with the signature', () => {
    const { transaction } = readSigned(message);
    const payload = { ...transaction, chain: 'tron:0x2b6653dc', bandwidthSun: '0' };
    expect(assemble({ transaction: payload, signature: `0x${signature}` })).toEqual({ raw: message, hash: id });
    expect(signerOf(id, bytesOf(signature))).toBe(owner);
  });

  it('is read alike by the code of the double', () => {
    const [ours, other] = [readSigned(message).transaction, readTransaction(bytesOf(message))];
    expect(other).toMatchObject({ id, refBlockBytes: ours.refBlockBytes, refBlockHash: ours.refBlockHash });
    expect([other.expirationMs, other.timestampMs].map(Number)).toEqual([ours.expirationMs, ours.timestampMs]);
    expect(other.feeLimitSun.toString()).toBe(ours.feeLimitSun);
    expect(other.contract.owner).toBe(owner);
  });

  it.runIf(netUsage !== null)('was billed for its bytes and 64 more', () => {
    expect(message.length / 2 + 64).toBe(netUsage);
  });
});

describe('bytes that are not ours', () => {
  // github.com, documentation of a wallet service; block of March 2021.
  const withMemo =
    '0a02209022081c806ea96f02e99340a0fdb6e4862f520a74657374e6b58be8af955aae01081f12a9010a31747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e54726967676572536d617274436f6e747261637412740a154124b3f61ca56819898b08c0c61ed18f98c813372b121541a614f803b6fd780986a42c78ec9c7f77e6ded13c2244a9059cbb0000000000000000000000000976782e1b25c5364ea68595145dd20bd913727600000000000000000000000000000000000000000000000000000000000003e87096bbb3e4862f900180a3c347';
  const [published] = publishedTransactions;
  const { signature } = published!;

  it.each([
    ['a memo', messageOf({ rawData: withMemo, signature }), 'nothing but a transfer'],
    ['two signatures', `${messageOf(published!)}1241${signature}`, 'one signature'],
    ['no signature', messageOf(published!).slice(0, -134), 'one signature'],
    ['a result', `${messageOf(published!)}2a021801`, 'nothing but a transfer'],
    ['nothing', '', 'one contract and one signature'],
  ])('are not read: those with %s', (_, bytes, words) => {
    expect(() => readSigned(bytes)).toThrow(words);
  });
});
