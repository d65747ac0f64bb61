import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createBroadcast } from '../../activities/broadcast.ts';
import { createCheckChain } from '../../activities/check-chain.ts';
import { recordFinality, recordInclusion } from '../../activities/record-inclusion.ts';
import { markSigning } from '../../shared/db/transactions.ts';
import {
  type ChainWorld,
  createChainWorld,
  signPayment,
  signTransaction,
  type TestWallet,
} from '../support/chain-world.ts';
import { patiently } from '../support/patience.ts';

const recipient = '0x00000000000000000000000000000000000000aa';

describe('broadcast and checking the chain', () => {
  let world: ChainWorld;
  let wallet: TestWallet;
  beforeAll(async () => {
    world = await createChainWorld();
  });
  afterAll(() => world.close());
  beforeEach(async () => {
    await world.node.setAutomine(true);
    wallet = await world.wallet();
    await world.node.setAutomine(false);
  });

  const activities = (confirmations = 1) => {
    const chains = new Map([[world.local.chain, world.adapter({ confirmations })]]);
    const deps = { pool: world.pool, chains, ...patiently };
    return { broadcast: createBroadcast(deps), checkChain: createCheckChain(deps) };
  };
  const mine = (blocks = 1) => world.node.mine({ blocks });

  /** A stored and signed payment of 1 USDC or of wei. */
  async function signed(o: { nonce?: number; amountMinor?: bigint; native?: boolean } = {}) {
    const token = o.native ? world.eth : world.usdc;
    const row = await world.payment({ wallet, to: recipient, token, amountMinor: o.amountMinor ?? 1_000_000n });
    const prepared = await world
      .adapter()
      .prepare({ from: wallet.account.address, to: recipient, token, amountMinor: BigInt(row.amount_minor) });
    if (prepared.outcome !== 'ready') throw new Error(prepared.message);
    const bytes = await signPayment({ wallet, row, prepared, ...(o.nonce === undefined ? {} : { nonce: o.nonce }) });
    await markSigning(world.pool, { id: row.id, nonce: bytes.transaction.nonce });
    return { id: row.id, ...bytes };
  }
  const again = (payment: Awaited<ReturnType<typeof signed>>, change: Partial<typeof payment.transaction>) =>
    signTransaction({ wallet, transaction: { ...payment.transaction, ...change } });

  it('stores before it sends, and a repeat makes no second attempt ("already known")', async () => {
    const { broadcast, checkChain } = activities();
    const { id, raw, hash } = await signed();
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'sent' });
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'sent' });
    expect(await world.attempts(id)).toMatchObject([{ hash, raw, sent_at: expect.any(Date), final_at: null }]);
    expect(await world.transaction(id)).toMatchObject({ hash, status: 'pending', status_detail: 'broadcast' });
    expect(await checkChain(id)).toEqual({ state: 'waiting' });
    await mine();
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'sent' });
    expect(await checkChain(id)).toEqual({ state: 'final' });
    const receipt = await world.node.getTransactionReceipt({ hash });
    expect(await world.transaction(id)).toMatchObject({
      status_detail: 'confirming',
      confirmations: 1,
      block_number: receipt.blockNumber.toString(),
      fee_minor: (receipt.gasUsed * receipt.effectiveGasPrice).toString(),
    });
    expect(await world.attempts(id)).toMatchObject([{ succeeded: true, final_at: expect.any(Date) }]);
  });

  it('keeps the attempt when the node cannot be reached, so that nothing is lost or sent unknown', async () => {
    const { id, raw, hash } = await signed();
    const dead = new Map([[world.local.chain, world.adapter({ urls: ['http://127.0.0.1:1'] })]]);
    const broadcast = createBroadcast({ pool: world.pool, chains: dead, clock: () => new Date() });
    await expect(broadcast({ transactionId: id, raw, hash })).rejects.toMatchObject({ name: 'RpcUnavailable' });
    expect(await world.attempts(id)).toMatchObject([{ hash, sent_at: null }]);
    expect(await activities().checkChain(id)).toEqual({ state: 'waiting' });
    await mine();
    expect(await activities().checkChain(id)).toEqual({ state: 'final' });
  });

  it('sends nothing for a payment that has ended', async () => {
    const { id, raw, hash } = await signed();
    await world.pool.query(
      `update transactions set status = 'failed', status_detail = 'failed', failure_code = 'cancelled' where id = $1`,
      [id],
    );
    expect(await activities().broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'ended' });
    expect(await world.attempts(id)).toEqual([]);
    expect(await world.adapter().knows({ hash })).toBe(false);
  });

  it('leaves a used nonce to the chain: a foreign payment there is proven only at depth (F5, F10)', async () => {
    const { broadcast, checkChain } = activities(3);
    const payment = await signed();
    const foreign = await again(payment, { to: recipient, valueWei: '5', data: '0x' });
    await world.node.sendRawTransaction({ serializedTransaction: foreign.raw });
    await mine();
    const { id, raw, hash } = payment;
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'undecided' });
    expect(await world.transaction(id)).toMatchObject({ status: 'pending' });
    expect(await checkChain(id)).toEqual({ state: 'waiting' });
    await mine(2);
    expect(await checkChain(id)).toEqual({ state: 'replaced', by: foreign.hash });
  });

  it('takes the same payment under another signature or fee for ours', async () => {
    const { broadcast, checkChain } = activities(2);
    const payment = await signed();
    const twin = await again(payment, {
      maxFeePerGasWei: (BigInt(payment.transaction.maxFeePerGasWei) + 1n).toString(),
    });
    await world.node.sendRawTransaction({ serializedTransaction: twin.raw });
    await mine(40);
    const { id, raw, hash } = payment;
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'undecided' });
    expect(await checkChain(id)).toEqual({ state: 'final' });
    expect(await world.transaction(id)).toMatchObject({ hash: twin.hash, status_detail: 'confirming' });
    const [mined, other] = await world.attempts(id);
    expect(mined).toMatchObject({ hash: twin.hash, raw: twin.raw, succeeded: true, final_at: expect.any(Date) });
    expect(other).toMatchObject({ hash, block_number: null, final_at: expect.any(Date) });
  });

  it('sends again what the node has dropped', async () => {
    const { broadcast, checkChain } = activities();
    const { id, raw, hash } = await signed();
    await broadcast({ transactionId: id, raw, hash });
    await world.node.dropTransaction({ hash });
    expect(await world.adapter().knows({ hash })).toBe(false);
    expect(await checkChain(id)).toEqual({ state: 'waiting' });
    expect(await world.adapter().knows({ hash })).toBe(true);
    await mine();
    expect(await checkChain(id)).toEqual({ state: 'final' });
  });

  it('makes nothing final whose block is not part of the chain (F47)', async () => {
    const { id, raw, hash } = await signed();
    await activities().broadcast({ transactionId: id, raw, hash });
    await mine();
    const adapter = world.adapter();
    const deps = { db: world.pool, adapter };
    const [inclusion] = await adapter.inclusions({ hashes: [hash] });
    const headNumber = inclusion!.blockNumber;
    await recordInclusion(deps, { headNumber, inclusions: [inclusion!] });
    await world.node.request({ method: 'anvil_reorg' as never, params: [1, []] as never });
    const due = await world.attempts(id);
    const result = await recordFinality(deps, { headNumber, due });
    expect(result).toMatchObject({ settled: [], orphaned: [{ hash }] });
    expect(await world.attempts(id)).toMatchObject([{ final_at: null }]);
    expect(await activities().checkChain(id)).toEqual({ state: 'waiting' });
    await mine();
    expect(await activities().checkChain(id)).toEqual({ state: 'final' });
  });

  it('corrects what was noted wrongly before it makes anything final (F47)', async () => {
    const { id, raw, hash } = await signed();
    await activities().broadcast({ transactionId: id, raw, hash });
    await mine();
    const adapter = world.adapter();
    const deps = { db: world.pool, adapter };
    const [inclusion] = await adapter.inclusions({ hashes: [hash] });
    const { blockNumber: headNumber, blockHash, feeMinor } = inclusion!;
    const stale = {
      hash,
      blockNumber: headNumber - 1,
      blockHash: `0x${'11'.repeat(32)}`,
      succeeded: false,
      feeMinor: 1n,
    };
    await recordInclusion(deps, { headNumber, inclusions: [stale] });
    const result = await recordFinality(deps, { headNumber, due: await world.attempts(id) });
    expect(result).toMatchObject({ settled: [id], orphaned: [] });
    const facts = { block_number: String(headNumber), block_hash: blockHash, succeeded: true };
    expect(await world.attempts(id)).toMatchObject([
      { ...facts, fee_minor: String(feeMinor), final_at: expect.any(Date) },
    ]);
  });

  it('waits for fee money that is missing, and goes on once it is there (F12)', async () => {
    const { broadcast, checkChain } = activities();
    const { id, raw, hash } = await signed();
    await world.node.setBalance({ address: wallet.account.address, value: 0n });
    expect(await broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'unfunded' });
    expect(await world.transaction(id)).toMatchObject({
      status: 'pending',
      notice: expect.stringContaining(`The wallet ${wallet.account.address} cannot pay`),
      unfunded_since: expect.any(Date),
    });
    expect(await checkChain(id)).toEqual({ state: 'waiting' });
    await world.node.setBalance({ address: wallet.account.address, value: 10n ** 18n });
    expect(await checkChain(id)).toEqual({ state: 'waiting' });
    expect(await world.transaction(id)).toMatchObject({ notice: null, unfunded_since: null });
    await mine();
    expect(await checkChain(id)).toEqual({ state: 'final' });
  });

  it('says for good and in words that bytes are refused (F12)', async () => {
    const payment = await signed();
    const wrong = await again(payment, { chainId: 1 });
    expect(await activities().broadcast({ transactionId: payment.id, raw: wrong.raw, hash: wrong.hash })).toEqual({
      outcome: 'refused',
    });
    expect((await world.transaction(payment.id)).notice).toMatch(/^The chain refuses the transaction: .*chain id/i);
  });
});
