import { serializeSignature } from 'viem';
import { generatePrivateKey, privateKeyToAddress, sign } from 'viem/accounts';
import type { ChainAdapter, PrepareResult, Transfer } from '../../shared/chain/adapter.ts';
import type { Signed } from '../../shared/chain/family.ts';
import { type Chain, createRegistry, type Token } from '../../shared/chain/registry.ts';
import { createTronAdapter } from '../../shared/chain/tron/create-tron-adapter.ts';
import { tronFamily } from '../../shared/chain/tron/family.ts';
import type { TronPrepared } from '../../shared/chain/tron/prepared.ts';
import type { TransactionPayload } from '../../shared/domain/receipt.ts';
import type { Logger } from '../../shared/log.ts';
import { addressOf, bytesOf } from './tron-bytes.ts';
import type { TronChainDouble } from './tron-chain-double.ts';
import { startTronNodeDouble, type TronNodeDouble } from './tron-node-double.ts';

/** Who pays: a wallet whose key the test holds, in place of the signers. */
export interface TronWallet {
  readonly key: `0x${string}`;
  readonly address: string;
}

/** A Tron chain behind some nodes, all of them doubles. */
export interface TronWorld {
  readonly chain: Chain;
  readonly trx: Token;
  readonly usdt: Token;
  readonly double: TronChainDouble;
  /** All of the same chain. */
  readonly nodes: readonly TronNodeDouble[];
  adapter(o?: {
    confirmations?: number;
    maxFeeSun?: bigint;
    urls?: readonly string[];
    logger?: Logger;
  }): ChainAdapter<TronPrepared>;
  /** @param funds in minor units; solidified already */
  wallet(funds?: { trx?: bigint; usdt?: bigint }): TronWallet;
  /** Blocks until what is in the newest one now is solidified. */
  solidify(): void;
  /** Blocks until the newest solidified one is so much later than a time, Unix milliseconds. */
  solidifyPast(timeMs: number): void;
  stop(): Promise<void>;
}

export async function createTronWorld({ nodes = 3 }: { nodes?: number } = {}): Promise<TronWorld> {
  const first = await startTronNodeDouble();
  const double = first.chain;
  const others = await Promise.all(Array.from({ length: nodes - 1 }, () => startTronNodeDouble({ share: double })));
  const all = [first, ...others];
  const registry = createRegistry({ environment: 'sandbox', enabled: ['tron:0xcd8690dc'] });
  const chain = registry.chains[0]!;
  const [trx, usdt] = [chain.tokens[0]!, registry.token(chain.id, 'USDT')!];
  double.addToken(usdt.asset);
  const solidify = () => {
    const { number } = double.head;
    while (double.solid.number < number) double.produce();
  };
  return {
    ...{ chain, trx, usdt, double, nodes: all, solidify },
    adapter: ({ confirmations = chain.confirmations, urls = all.map(({ url }) => url), ...o } = {}) =>
      createTronAdapter({ chain: { ...chain, confirmations }, urls, ...o }),
    wallet(funds = {}) {
      const wallet = newTronWallet();
      double.setAccount(wallet.address, { balanceSun: funds.trx ?? 1_000_000_000n });
      if (funds.usdt !== undefined) double.setTokens(usdt.asset, wallet.address, funds.usdt);
      solidify();
      return wallet;
    },
    solidifyPast(timeMs) {
      if (double.head.timestampMs <= timeMs) double.produce({ timestampMs: timeMs + 1 });
      solidify();
    },
    async stop() {
      await Promise.all(all.map((each) => each.stop()));
    },
  };
}

/** A wallet of nobody yet. */
export function newTronWallet(): TronWallet {
  const key = generatePrivateKey();
  return { key, address: addressOf(bytesOf(`41${privateKeyToAddress(key).slice(2).toLowerCase()}`)) };
}

export async function prepareReady(
  adapter: ChainAdapter<TronPrepared>,
  transfer: Transfer,
  former?: TransactionPayload,
): Promise<TronPrepared> {
  const prepared: PrepareResult<TronPrepared> = await adapter.prepare(transfer, former);
  if (prepared.outcome !== 'ready') throw new Error(prepared.message);
  return prepared;
}

/** What is to be signed for a payment. */
export async function buildTron(
  adapter: ChainAdapter,
  transfer: Transfer,
  prepared: TronPrepared,
): Promise<TransactionPayload> {
  const { from, to, token, amountMinor } = transfer;
  const intent = {
    ...{ chain: adapter.chain.id, asset: token.asset, to },
    ...{ amount_minor: amountMinor.toString(), max_fee_minor: prepared.maxFeeMinor },
  };
  const nothing = { nextNonce: async () => 0, freeCoins: async () => [] };
  const built = await tronFamily.build({ intent, from, prepared, places: nothing });
  if (built.outcome !== 'built') throw new Error(`It is not built: ${built.outcome}.`);
  return built.payload;
}

/** Its bytes, signed by a key that the test holds. */
export async function signTron(payload: TransactionPayload, { key, address }: TronWallet): Promise<Signed> {
  const hash = tronFamily.slotOf(payload, address).split('/').at(-1)!;
  const signature = serializeSignature(await sign({ hash: `0x${hash}`, privateKey: key }));
  return tronFamily.assemble({ payload, signatures: [signature], from: address });
}

/** From now on the node knows of no later block, as one that lags does; what it does wrong otherwise is over. */
export async function freeze(node: TronNodeDouble): Promise<void> {
  const newest = async (api: string) => {
    const response = await fetch(`${node.url}/${api}/getnowblock`, { method: 'POST' });
    return (await response.json()) as { block_header: { raw_data: { number: number } } };
  };
  const blocks = { wallet: await newest('wallet'), walletsolidity: await newest('walletsolidity') };
  node.set({
    answer(path, body, answer) {
      const [, api, method] = path.split('/') as ['', keyof typeof blocks, string];
      const { number } = blocks[api].block_header.raw_data;
      const blockNumber = (answer as { blockNumber?: number }).blockNumber ?? 0;
      if (method === 'getnowblock') return blocks[api];
      if (method === 'getblockbynum' && Number(body.num) > number) return {};
      return method === 'gettransactioninfobyid' && blockNumber > number ? {} : answer;
    },
  });
}
