import { secp256k1 } from '@noble/curves/secp256k1.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { tronFamily } from '../../../shared/chain/tron/family.ts';
import { addressWord } from '../../../shared/chain/tron/transfer-data.ts';
import type { TronTransaction } from '../../../shared/domain/receipt.ts';
import { bytesOf, signerOf } from '../../support/tron-bytes.ts';
import { startTronNodeDouble, type TronNodeDouble } from '../../support/tron-node-double.ts';

const chain = 'tron:0xcd8690dc';
const usdt = 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf';
const payee = 'TMVQGm1qAQYVdetCeGRRkTWYYrLXuHK2HC';
const trx = 1_000_000n;
const key = Uint8Array.from({ length: 32 }, () => 7);
const wallet = signerOf('11'.repeat(32), bytesOf(sign('11'.repeat(32), key)))!;

let node: TronNodeDouble;
beforeEach(async () => {
  node = await startTronNodeDouble({ chain });
  node.chain.setAccount(wallet, { balanceSun: 100n * trx });
  node.chain.setAccount(payee, { balanceSun: 1n });
});
afterEach(() => node.stop());

function sign(id: string, privateKey: Uint8Array): string {
  const made = secp256k1.sign(Buffer.from(id, 'hex'), privateKey, { prehash: false, format: 'recovered' });
  return `${Buffer.from(made.subarray(1)).toString('hex')}${(27 + made[0]!).toString(16)}`;
}

interface Answer {
  readonly transactions: readonly {
    readonly txID: string;
    readonly ret: readonly { readonly contractRet: string }[];
  }[];
  readonly constant_result: readonly string[];
}

const ask = async (path: string, body: object = {}): Promise<Answer> =>
  (await (await fetch(node.url + path, { method: 'POST', body: JSON.stringify(body) })).json()) as Answer;

function payment(change: Partial<TronTransaction> = {}): TronTransaction {
  const { head } = node.chain;
  return {
    chain,
    from: wallet,
    contract: { type: 'transfer', to: payee, amountSun: `${trx}` },
    refBlockBytes: head.id.slice(12, 16),
    refBlockHash: head.id.slice(16, 32),
    timestampMs: head.timestampMs,
    expirationMs: head.timestampMs + 600_000,
    feeLimitSun: '0',
    bandwidthSun: '0',
    ...change,
  };
}

const transferOf = (amount: bigint) => `a9059cbb${addressWord(payee)}${amount.toString(16).padStart(64, '0')}`;

function tokenPayment(change: Partial<TronTransaction> = {}): TronTransaction {
  const contract = { type: 'trigger', contract: usdt, data: transferOf(5n) } as const;
  return payment({ contract, feeLimitSun: '20000000', ...change });
}

function signed(transaction: TronTransaction, privateKey = key): { raw: string; id: string } {
  const payload = { kind: 'tron-transaction' as const, transaction };
  const id = tronFamily.slotOf(payload, wallet).split('/').at(-1)!;
  const { raw } = tronFamily.assemble({ payload, signatures: [`0x${sign(id, key)}`], from: wallet });
  return { raw: privateKey === key ? raw : raw.replace(sign(id, key), sign(id, privateKey)), id };
}

const send = (transaction: TronTransaction, privateKey = key) =>
  ask('/wallet/broadcasthex', { transaction: signed(transaction, privateKey).raw });

describe('the double of a Tron node', () => {
  it('takes a transfer, lets it wait, puts it in a block, and has it solidified when others stand above it', async () => {
    const { raw, id } = signed(payment());
    expect(await ask('/wallet/broadcasthex', { transaction: raw })).toMatchObject({ result: true, txid: id });
    expect(await ask('/wallet/gettransactionbyid', { value: id })).toMatchObject({ txID: id });
    expect(await ask('/wallet/gettransactioninfobyid', { value: id })).toEqual({});
    const block = node.chain.produce();
    expect(await ask('/wallet/gettransactioninfobyid', { value: id })).toMatchObject({
      id,
      blockNumber: block.number,
      receipt: { net_usage: 267 },
    });
    expect((await ask('/wallet/getnowblock')).transactions.map(({ txID }) => txID)).toEqual([id]);
    expect(await ask('/walletsolidity/gettransactionbyid', { value: id })).toEqual({});
    for (let n = 0; n < 19; n++) node.chain.produce();
    expect(await ask('/walletsolidity/gettransactioninfobyid', { value: id })).toMatchObject({ id });
    expect(await ask('/wallet/getaccount', { address: payee, visible: true })).toMatchObject({ balance: 1_000_001 });
  });

  it('tells what a token has moved by an event, whose address is written as was asked for', async () => {
    node.chain.setTokens(usdt, wallet, 100n);
    const { raw, id } = signed(tokenPayment());
    await ask('/wallet/broadcasthex', { transaction: raw });
    node.chain.produce();
    const parties = [wallet, payee].map(addressWord);
    const event = { topics: [expect.stringMatching(/^ddf252ad/), ...parties], data: '5'.padStart(64, '0') };
    const hex = addressWord(usdt).slice(24);
    const info = (visible: boolean) => ask('/wallet/gettransactioninfobyid', { value: id, visible });
    expect(await info(false)).toMatchObject({ contract_address: `41${hex}`, log: [{ ...event, address: hex }] });
    expect(await info(true)).toMatchObject({ contract_address: usdt, log: [{ ...event, address: usdt }] });
  });

  it.each<[string, string, () => Promise<unknown>]>([
    [
      'a signature of another key',
      'SIGERROR',
      () =>
        send(
          payment(),
          Uint8Array.from({ length: 32 }, () => 8),
        ),
    ],
    [
      'what has expired',
      'TRANSACTION_EXPIRATION_ERROR',
      () => send(payment({ expirationMs: node.chain.head.timestampMs })),
    ],
    [
      'what expires after a day',
      'TRANSACTION_EXPIRATION_ERROR',
      () => send(payment({ expirationMs: node.chain.head.timestampMs + 86_400_001 })),
    ],
    ['another reference block', 'TAPOS_ERROR', () => send(payment({ refBlockHash: '00'.repeat(8) }))],
    ['a repeat', 'DUP_TRANSACTION_ERROR', () => send(payment()).then(() => send(payment()))],
    [
      'a repeat of what is in a block',
      'DUP_TRANSACTION_ERROR',
      async () => {
        const transaction = payment();
        await send(transaction);
        node.chain.produce();
        return send(transaction);
      },
    ],
    [
      'more than there is',
      'CONTRACT_VALIDATE_ERROR',
      () => send(payment({ contract: { type: 'transfer', to: payee, amountSun: `${100n * trx + 1n}` } })),
    ],
    [
      'a second one that the first leaves no money for',
      'CONTRACT_VALIDATE_ERROR',
      async () => {
        await send(payment({ contract: { type: 'transfer', to: payee, amountSun: `${60n * trx}` } }));
        return send(payment({ contract: { type: 'transfer', to: payee, amountSun: `${50n * trx}` } }));
      },
    ],
    [
      'money to oneself',
      'CONTRACT_VALIDATE_ERROR',
      () => send(payment({ contract: { type: 'transfer', to: wallet, amountSun: '1' } })),
    ],
    ['an unknown contract', 'CONTRACT_VALIDATE_ERROR', () => send(tokenPayment())],
    [
      'what cannot pay for its bytes',
      'BANDWITH_ERROR',
      () => {
        node.chain.setAccount(wallet, { balanceSun: 1n, freeNetUsed: 600n });
        return send(payment({ contract: { type: 'transfer', to: payee, amountSun: '1' } }));
      },
    ],
  ])('refuses %s: %s', async (_, code, answer) => {
    expect(await answer()).toMatchObject({ result: false, code });
  });

  it('takes a fee for the account that a transfer makes: 1.1 TRX, as the mainnet did', async () => {
    const stranger = 'TAVrrARNdnjHgCGMQYeQV7hv4PSu7mVsMj';
    const { raw, id } = signed(payment({ contract: { type: 'transfer', to: stranger, amountSun: '1' } }));
    await ask('/wallet/broadcasthex', { transaction: raw });
    node.chain.produce();
    expect(await ask('/wallet/gettransactioninfobyid', { value: id })).toMatchObject({
      fee: 1_100_000,
      receipt: { net_fee: 100_000 },
    });
  });

  describe('of a token', () => {
    beforeEach(() => node.chain.setTokens(usdt, wallet, 10n));

    const result = async (change?: Partial<TronTransaction>) => {
      const { raw, id } = signed(tokenPayment(change));
      expect(await ask('/wallet/broadcasthex', { transaction: raw })).toMatchObject({ result: true });
      node.chain.produce();
      const info = await ask('/wallet/gettransactioninfobyid', { value: id });
      const [transaction] = (await ask('/wallet/getnowblock')).transactions;
      return { info, contractRet: transaction!.ret[0]!.contractRet };
    };

    const held = async (owner: string) => {
      const body = {
        owner_address: owner,
        contract_address: usdt,
        function_selector: 'balanceOf(address)',
        parameter: addressWord(owner),
        visible: true,
      };
      return BigInt(`0x${(await ask('/wallet/triggerconstantcontract', body)).constant_result[0]}`);
    };

    it('moves it and burns TRX for energy', async () => {
      const { info, contractRet } = await result();
      expect(contractRet).toBe('SUCCESS');
      expect(info).toMatchObject({
        fee: 13_028_500,
        receipt: { result: 'SUCCESS', energy_fee: 13_028_500, net_usage: 345 },
      });
      expect(await held(wallet)).toBe(5n);
      expect(await held(payee)).toBe(5n);
    });

    it('runs out of energy under a low limit, which it burns all the same', async () => {
      const { info, contractRet } = await result({ feeLimitSun: '1000000' });
      expect(contractRet).toBe('OUT_OF_ENERGY');
      expect(info).toMatchObject({ fee: 1_000_000, result: 'FAILED', receipt: { result: 'OUT_OF_ENERGY' } });
      expect(await held(wallet)).toBe(10n);
    });

    it('reverts when it is told to, though asking goes well', async () => {
      node.chain.addToken(usdt, { fails: 'REVERT' });
      const body = {
        owner_address: wallet,
        contract_address: usdt,
        data: transferOf(5n),
        visible: true,
      };
      expect(await ask('/wallet/triggerconstantcontract', body)).toMatchObject({
        result: { result: true },
        energy_used: 130_285,
      });
      const { info, contractRet } = await result();
      expect(contractRet).toBe('REVERT');
      expect(info).toMatchObject({ result: 'FAILED', receipt: { result: 'REVERT' } });
      expect(await held(wallet)).toBe(10n);
    });
  });

  it('takes a block back before it is solid, and what was in it waits again or is forgotten', async () => {
    const { raw, id } = signed(payment());
    await ask('/wallet/broadcasthex', { transaction: raw });
    const gone = node.chain.produce();
    node.chain.reorg({ depth: 1, include: () => false });
    expect(node.chain.block(gone.number)!.id).not.toBe(gone.id);
    // Its reference block was the one before.
    expect(node.chain.pendingIds).toEqual([id]);
    node.chain.produce();
    expect(await ask('/wallet/gettransactioninfobyid', { value: id })).toMatchObject({ id });
    node.chain.reorg({ depth: 1, forget: true });
    expect(await ask('/wallet/gettransactionbyid', { value: id })).toEqual({});
    expect(() => node.chain.reorg({ depth: 25 })).toThrow('solidified');
  });

  it('lets nothing in that has expired while it waited', async () => {
    const { raw, id } = signed(payment());
    await ask('/wallet/broadcasthex', { transaction: raw });
    const { timestampMs } = node.chain.head;
    node.chain.produce({ timestampMs: timestampMs + 600_000, include: () => false });
    node.chain.produce();
    expect(await ask('/wallet/gettransactionbyid', { value: id })).toEqual({});
    expect(await ask('/wallet/broadcasthex', { transaction: raw })).toMatchObject({
      code: 'TRANSACTION_EXPIRATION_ERROR',
    });
  });
});
