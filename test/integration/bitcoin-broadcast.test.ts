import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createBroadcast } from '../../activities/broadcast.ts';
import { createCheckChain } from '../../activities/check-chain.ts';
import { recordFinality, recordInclusion } from '../../activities/record-inclusion.ts';
import { markSigning } from '../../shared/db/transactions.ts';
import type { BitcoinTransaction } from '../../shared/domain/receipt.ts';
import { type BitcoinOperator, createBitcoinOperator } from '../support/bitcoin-operator.ts';
import { payee } from '../support/bitcoin-payees.ts';
import {
  type BitcoinWallet,
  type BitcoinWorld,
  buildPayment,
  createBitcoinWorld,
  replacePayment,
  signBitcoin,
} from '../support/bitcoin-world.ts';
import { patiently } from '../support/patience.ts';

const unknownHash = 'ab'.repeat(32);

describe('broadcast and checking a Bitcoin chain', () => {
  let world: BitcoinWorld;
  let operator: BitcoinOperator;
  let wallet: BitcoinWallet;
  const to = payee('p2wpkh');
  beforeAll(async () => {
    world = await createBitcoinWorld();
    operator = createBitcoinOperator(world.bitcoin.node);
  });
  afterAll(() => world.close());
  beforeEach(async () => {
    wallet = await world.wallet();
  });
  afterEach(async () => {
    await world.bitcoin.mine();
  });

  const activities = (confirmations = 1, urls = [world.bitcoin.url]) => {
    const chains = new Map([[world.chain.id, world.adapter({ confirmations, urls })]]);
    const deps = { pool: world.pool, chains, ...patiently };
    return { broadcast: createBroadcast(deps), checkChain: createCheckChain(deps) };
  };
  const mine = (blocks = 1) => world.bitcoin.mine(blocks);
  const sign = (transaction: BitcoinTransaction) => ({ transaction, ...signBitcoin({ wallet, transaction }) });

  /** A stored and signed payment. */
  async function signed({ amountMinor = 1_000_000n }: { amountMinor?: bigint } = {}) {
    const row = await world.payment({ wallet, to, amountMinor });
    const prepared = await world.adapter().prepare({ from: wallet.address, to, token: world.btc, amountMinor });
    if (prepared.outcome !== 'ready') throw new Error(prepared.message);
    const transaction = await buildPayment({ wallet, row, prepared });
    await markSigning(world.pool, { id: row.id, nonce: null });
    return { id: row.id, ...sign(transaction) };
  }
  const raised = (before: BitcoinTransaction, purpose: 'payment' | 'noop' = 'payment') =>
    sign(replacePayment({ wallet, before, purpose, satPerKvb: 20_000n }));
  const feeOf = ({ inputs, outputs }: BitcoinTransaction) =>
    [inputs, outputs]
      .map((some) => some.reduce((sum, each) => sum + BigInt(each.valueSat), 0n))
      .reduce((a, b) => a - b);

  it('stores before it sends, and a repeat makes no second attempt', async () => {
    const { broadcast, checkChain } = activities(2);
    const { id, raw, hash, transaction } = await signed();
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'sent' });
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'sent' });
    expect(await world.attempts(id)).toMatchObject([{ hash, raw, sent_at: expect.any(Date), final_at: null }]);
    expect(await world.adapter().knows({ hash })).toBe(true);
    expect(await checkChain(id)).toEqual({ state: 'waiting' });
    await mine();
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'sent' });
    expect(await checkChain(id)).toEqual({ state: 'included' });
    await mine();
    expect(await checkChain(id)).toEqual({ state: 'final' });
    expect(await world.attempts(id)).toMatchObject([{ succeeded: true, final_at: expect.any(Date) }]);
    expect(await world.transaction(id)).toMatchObject({
      status_detail: 'confirming',
      confirmations: 2,
      fee_minor: String(feeOf(transaction)),
    });
  });

  it('shows a block as the node has it', async () => {
    const { raw, hash } = await signed();
    const adapter = world.adapter();
    await adapter.send({ raw });
    const [blockHash] = await mine();
    const head = await adapter.head();
    expect(head).toMatchObject({ hash: blockHash, transactionHashes: [expect.any(String), hash] });
    expect(
      (await adapter.blocks({ numbers: [head.number - 1, head.number, head.number + 1] })).map((b) => b?.hash),
    ).toEqual([head.parentHash, head.hash, undefined]);
    const [inclusion] = await adapter.inclusions({ hashes: [hash, unknownHash] });
    expect(inclusion).toMatchObject({ hash, blockNumber: head.number, blockHash, succeeded: true });
    expect(await adapter.knows({ hash: unknownHash })).toBe(false);
  });

  it('keeps the attempt when no server can be reached, so that nothing is lost or sent unknown', async () => {
    const { id, raw, hash } = await signed();
    const { broadcast } = activities(1, ['http://127.0.0.1:1']);
    await expect(broadcast({ transactionId: id, raw, hash })).rejects.toMatchObject({ name: 'RpcUnavailable' });
    expect(await world.attempts(id)).toMatchObject([{ hash, sent_at: null }]);
    expect(await activities().checkChain(id)).toEqual({ state: 'waiting' });
    await mine();
    expect(await activities().checkChain(id)).toEqual({ state: 'final' });
  });

  it('leaves a spent coin to the chain: a foreign payment with it is proven only at depth', async () => {
    const { broadcast, checkChain } = activities(3);
    const { id, raw, hash, transaction } = await signed();
    const foreign = sign({ ...transaction, outputs: [{ address: payee('p2tr'), valueSat: '99000000' }] });
    await world.adapter().send(foreign);
    await mine();
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'undecided' });
    expect(await world.transaction(id)).toMatchObject({ status: 'pending' });
    expect(await checkChain(id)).toEqual({ state: 'waiting' });
    await mine();
    expect(await checkChain(id)).toEqual({ state: 'waiting' });
    await mine();
    expect(await checkChain(id)).toEqual({ state: 'replaced', by: foreign.hash });
  });

  it('leaves it to the chain as well while a better payment waits with the coin', async () => {
    const { broadcast } = activities();
    const { id, raw, hash, transaction } = await signed();
    const foreign = sign({ ...transaction, outputs: [{ address: payee('p2tr'), valueSat: '99000000' }] });
    expect(await world.adapter().send(foreign)).toEqual({ outcome: 'sent' });
    expect(await world.adapter().send({ raw })).toMatchObject({
      outcome: 'slot_taken',
      reason: expect.stringContaining('replacement transaction has an insufficient fee rate'),
    });
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'undecided' });
    expect(await world.adapter().slotOwner({ raw })).toBeUndefined();
  });

  it('takes a payment of the same amount to the same recipient for ours, whatever its fee', async () => {
    const { broadcast, checkChain } = activities(2);
    const { id, raw, hash, transaction } = await signed();
    // One that the database has lost.
    const twin = raised(transaction);
    await world.adapter().send(twin);
    await mine(4);
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'undecided' });
    expect(await checkChain(id)).toEqual({ state: 'final' });
    expect(await world.transaction(id)).toMatchObject({ hash: twin.hash, fee_minor: String(feeOf(twin.transaction)) });
    const [mined, other] = await world.attempts(id);
    expect(mined).toMatchObject({ hash: twin.hash, raw: twin.raw, succeeded: true, final_at: expect.any(Date) });
    expect(other).toMatchObject({ hash, block_number: null, final_at: expect.any(Date) });
  });

  it('takes no payment of another amount for ours, and none that pays nobody', async () => {
    const { raw, transaction } = await signed();
    const [payment, change] = transaction.outputs;
    const other = sign({ ...transaction, outputs: [{ ...payment!, valueSat: '999999' }, change!] });
    await world.adapter().send(other);
    await mine(2);
    expect(await world.adapter({ confirmations: 2 }).slotOwner({ raw })).toMatchObject({
      inclusion: { hash: other.hash },
      raw: other.raw,
      samePayment: false,
    });
    const noop = raised(transaction, 'noop');
    expect(await world.adapter().slotOwner({ raw: noop.raw })).toMatchObject({ samePayment: false });
  });

  it('replaces a payment that waits by one with a higher fee (RBF), which alone is mined', async () => {
    const { broadcast, checkChain } = activities();
    const { id, raw, hash, transaction } = await signed();
    await broadcast({ transactionId: id, raw, hash });
    const better = raised(transaction);
    expect(await broadcast({ transactionId: id, ...better, version: 2 })).toEqual({ outcome: 'sent' });
    expect(await world.adapter().knows({ hash })).toBe(false);
    await mine();
    expect(await checkChain(id)).toEqual({ state: 'final' });
    expect(await world.transaction(id)).toMatchObject({ hash: better.hash });
    expect((await world.adapter().balances({ owner: to })).data[0]).toMatchObject({ amountMinor: expect.any(BigInt) });
  });

  it('takes a payment back by one that pays nobody', async () => {
    const { id, raw, hash, transaction } = await signed();
    await activities().broadcast({ transactionId: id, raw, hash });
    const noop = raised(transaction, 'noop');
    expect(await world.adapter().send(noop)).toEqual({ outcome: 'sent' });
    await mine();
    expect(await world.adapter().knows({ hash })).toBe(false);
    const left = 100_000_000n - feeOf(noop.transaction);
    expect((await world.adapter().balances({ owner: wallet.address })).data).toEqual([
      { token: world.btc, amountMinor: left },
    ]);
  });

  it('sends again what the node has forgotten', async () => {
    const { broadcast, checkChain } = activities();
    const { id, raw, hash } = await signed();
    await broadcast({ transactionId: id, raw, hash });
    await world.bitcoin.restart();
    expect(await world.adapter().knows({ hash })).toBe(false);
    expect(await checkChain(id)).toEqual({ state: 'waiting' });
    expect(await world.adapter().knows({ hash })).toBe(true);
    await mine();
    expect(await checkChain(id)).toEqual({ state: 'final' });
  });

  it('makes nothing final whose block is not part of the chain, and waits for the next one', async () => {
    const { id, raw, hash } = await signed();
    await activities().broadcast({ transactionId: id, raw, hash });
    await mine();
    const adapter = world.adapter();
    const deps = { db: world.pool, adapter };
    const [inclusion] = await adapter.inclusions({ hashes: [hash] });
    const headNumber = inclusion!.blockNumber;
    await recordInclusion(deps, { headNumber, inclusions: [inclusion!] });
    await operator.reorg(1);
    const result = await recordFinality(deps, { headNumber, due: await world.attempts(id) });
    expect(result).toMatchObject({ settled: [], orphaned: [{ hash }] });
    expect(await activities().checkChain(id)).toEqual({ state: 'waiting' });
    await mine();
    expect(await activities().checkChain(id)).toEqual({ state: 'final' });
  });

  it('finds a payment in another block than it was seen in', async () => {
    const { raw, hash } = await signed();
    const adapter = world.adapter();
    await adapter.send({ raw });
    await mine();
    const [inclusion] = await adapter.inclusions({ hashes: [hash] });
    await operator.reorg(1);
    await mine();
    const [moved] = await adapter.agreedInclusions({ placed: [{ hash, blockNumber: inclusion!.blockNumber }] });
    expect(moved).toMatchObject({ outcome: 'included', inclusion: { blockNumber: inclusion!.blockNumber + 2 } });
  });

  it('says for good and in words that bytes are refused', async () => {
    const { id, transaction } = await signed();
    const valueSat = (BigInt(transaction.inputs[0]!.valueSat) - 1n).toString();
    // Signed over another value than the coin has: the signature is void (BIP-143).
    const wrong = sign({ ...transaction, inputs: [{ ...transaction.inputs[0]!, valueSat }] });
    expect(await activities().broadcast({ transactionId: id, raw: wrong.raw, hash: wrong.hash })).toEqual({
      outcome: 'refused',
    });
    expect((await world.transaction(id)).notice).toMatch(
      /^The chain refuses the transaction: .*failed to validate input/i,
    );
  });

  it('says in the node’s words that bytes offer too little just now', async () => {
    const { transaction } = await signed();
    const [payment, change] = transaction.outputs;
    const valueSat = (BigInt(change!.valueSat) + feeOf(transaction) - 20n).toString();
    const cheap = sign({ ...transaction, outputs: [payment!, { ...change!, valueSat }] });
    expect(await world.adapter().send(cheap)).toEqual({
      outcome: 'underpriced',
      reason: expect.stringContaining('due to low fees'),
    });
  });

  it('waits for a coin that its server does not know yet', async () => {
    const { transaction, raw } = await signed();
    const stray = sign({ ...transaction, inputs: [{ ...transaction.inputs[0]!, txid: unknownHash }] });
    expect(await world.adapter().send(stray)).toMatchObject({ outcome: 'slot_taken' });
    expect(await world.adapter().slotOwner(stray)).toBeUndefined();
    expect(await world.adapter().slotOwner({ raw })).toBeUndefined();
  });

  it('knows nothing that expires, and no authorisations', async () => {
    const { raw } = await signed();
    const adapter = world.adapter();
    expect(await adapter.isExpired({ raw })).toBe(false);
    expect(await adapter.authorizationEvents({ tokens: [], nonces: [], fromBlock: 0, toBlock: 1 })).toEqual([]);
  });
});
