import { LOCAL_CHAIN } from '../dev/anvil.ts';
import { REGTEST_CHAIN } from '../dev/btcd.ts';
import { btcdBinary } from '../dev/btcd-binary.ts';
import type { Progress } from '../dev/progress.ts';
import { deployToken } from '../dev/token.ts';
import { familyOf } from '../shared/chain/families.ts';
import { createRegistry } from '../shared/chain/registry.ts';
import { formatAmount, parseAmount } from '../shared/domain/money.ts';
import { addressOf } from '../test/support/tron-bytes.ts';
import { startTronNodeDouble, type TronNodeDouble } from '../test/support/tron-node-double.ts';
import { createDatabaseWatch } from './database-watch.ts';
import { createFloorWallet, type FloorWallet } from './family-floor.ts';
import { createFamilyPayer, type FamilyPayer, type FamilyPayment } from './family-payer.ts';
import { recipient } from './payments.ts';
import type { Cost, MeasuredFamilies } from './report.ts';
import { interleave, summarise } from './samples.ts';
import { type BenchStack, withStack } from './with-stack.ts';

const tronChain = 'tron:0xcd8690dc';
const usdt = 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf';
/** Much more often than on the real chain: what is measured does not depend on blocks. */
const tronBlockMs = 100;
/** Enough for every round. */
const funds = { wei: 10n ** 19n, minorUnits: 10_000_000_000n, sun: 1_000_000_000_000n, btc: '0.4' };

export interface FamilyPlan {
  readonly rounds: number;
  readonly warmUpRounds: number;
  readonly limitMs: number;
}
export const fullFamilyPlan: FamilyPlan = { rounds: 30, warmUpRounds: 2, limitMs: 480_000 };
export const quickFamilyPlan: FamilyPlan = { rounds: 5, warmUpRounds: 1, limitMs: 90_000 };

/** A payment that is measured, with a wallet of the service and one whose key is in this process. */
interface Case {
  readonly name: string;
  readonly payment: FamilyPayment;
  readonly agentId: string;
  readonly floor: FloorWallet;
}

/**
 * Payments on a chain of each family: how long it takes until they are signed, and what they cost. The chain of Tron is a
 * double; Bitcoin's is left out where its node cannot be had.
 */
export async function measureFamilies(context: {
  env: NodeJS.ProcessEnv;
  plan: FamilyPlan;
  progress: Progress;
  signal: AbortSignal;
}): Promise<MeasuredFamilies> {
  const { env, plan, progress, signal } = context;
  const noBitcoin = await btcdBinary(env, { onProgress: progress.line }).then(
    () => undefined,
    (error: Error) => `Bitcoin: ${error.message}`,
  );
  const tron = await startTronNodeDouble({ chain: tronChain });
  tron.produceEvery(tronBlockMs);
  try {
    const more = { PURSER_CHAINS: `${LOCAL_CHAIN},${tronChain}`, PURSER_RPC_TRON_0XCD8690DC: tron.url };
    return await withStack({ env, progress, signal, bitcoin: !noBitcoin, more }, async (stack) => {
      const watch = await createDatabaseWatch({ databaseUrl: stack.facts.database_url });
      try {
        const payer = createFamilyPayer({ facts: stack.facts, watch });
        const cases = await progress.step('wallets of each family', async () => [
          ...(await evmCases(payer, stack)),
          ...(noBitcoin ? [] : await bitcoinCases(payer, stack)),
          ...(await tronCases(payer, tron)),
        ]);
        const measured = await progress.step('one at a time, floors in turn', () =>
          measureCases(payer, { cases, plan, signal }),
        );
        return { ...measured, skipped: noBitcoin ? [noBitcoin] : [] };
      } finally {
        await watch.close();
      }
    });
  } finally {
    await tron.stop();
  }
}

async function evmCases(payer: FamilyPayer, { facts }: BenchStack): Promise<Case[]> {
  const { id: agentId } = await payer.createAgent(LOCAL_CHAIN);
  const token = await deployToken({ rpcUrl: facts.rpc_url });
  const usdc = { chain: LOCAL_CHAIN, symbol: 'USDC', decimals: 6, asset: facts.usdc_address };
  const floor = createFloorWallet({ chain: LOCAL_CHAIN, url: facts.rpc_url, extraTokens: [usdc] });
  await token.topUp({ address: floor.address as `0x${string}`, wei: funds.wei, minorUnits: funds.minorUnits });
  const payment = { chain: LOCAL_CHAIN, to: recipient };
  return [
    { name: 'EVM, ETH', payment: { ...payment, token: 'ETH', amount: '0.000001' }, agentId, floor },
    { name: 'EVM, USDC', payment: { ...payment, token: 'USDC', amount: '0.01' }, agentId, floor },
  ];
}

async function bitcoinCases(payer: FamilyPayer, { facts }: BenchStack): Promise<Case[]> {
  const { id: agentId } = await payer.createAgent(REGTEST_CHAIN);
  const floor = createFloorWallet({ chain: REGTEST_CHAIN, url: facts.bitcoin_url! });
  const { address: to } = createFloorWallet({ chain: REGTEST_CHAIN, url: facts.bitcoin_url! });
  const payment = { chain: REGTEST_CHAIN, token: 'BTC' };
  await payer.pay(agentId, { ...payment, to: floor.address, amount: funds.btc });
  return [{ name: 'Bitcoin, BTC', payment: { ...payment, to, amount: '0.0001' }, agentId, floor }];
}

async function tronCases(payer: FamilyPayer, { chain, url }: TronNodeDouble): Promise<Case[]> {
  const { id: agentId, address } = await payer.createAgent(tronChain);
  const floor = createFloorWallet({ chain: tronChain, url });
  const to = addressOf(Uint8Array.of(0x41, ...crypto.getRandomValues(new Uint8Array(20))));
  for (const each of [address, floor.address, to]) {
    chain.setAccount(each, { balanceSun: funds.sun });
    chain.setTokens(usdt, each, funds.minorUnits);
  }
  const payment = { chain: tronChain, to };
  return [
    { name: 'Tron, TRX', payment: { ...payment, token: 'TRX', amount: '0.01' }, agentId, floor },
    { name: 'Tron, USDT', payment: { ...payment, token: 'USDT', amount: '0.01' }, agentId, floor },
  ];
}

const hashName = ({ name }: Case) => `${name}: POST → hash`;
const floorName = ({ name }: Case) => `floor, ${name}, key in one process: → hash`;

async function measureCases(
  payer: FamilyPayer,
  { cases, plan, signal }: { cases: readonly Case[]; plan: FamilyPlan; signal: AbortSignal },
): Promise<Omit<MeasuredFamilies, 'skipped'>> {
  const fees = new Map<Case, string[]>(cases.map((each) => [each, []]));
  const found = await interleave(
    cases.flatMap((each) => [
      async () => {
        const { hashMs, fee } = await payer.pay(each.agentId, each.payment);
        fees.get(each)!.push(fee);
        return { [hashName(each)]: hashMs };
      },
      async () => ({ [floorName(each)]: (await each.floor.pay(each.payment)).hashMs }),
    ]),
    { warmUp: plan.warmUpRounds, rounds: plan.rounds, limitMs: plan.limitMs, signal },
  );
  const durations = new Map([...found].map(([name, ms]) => [name, summarise(ms)]));
  return {
    durations,
    throughput: new Map(),
    ratios: cases.map((each) => ({
      name: `${hashName(each)} / floor`,
      value: durations.get(hashName(each))!.p50 / durations.get(floorName(each))!.p50,
    })),
    costs: new Map(cases.map((each) => [each.name, costOf(each.payment.chain, fees.get(each)!)])),
  };
}

/** @param fees decimal, in the chain's own coin */
function costOf(chain: string, fees: readonly string[]): Cost {
  const { feeDecimals } = familyOf(chain);
  const { symbol } = createRegistry({ environment: 'sandbox', enabled: [chain] }).nativeToken(chain);
  // Nothing at all is a fee too: what Tron gives free.
  const minor = fees.map((fee) => (fee === '0' ? 0n : (parseAmount(fee, feeDecimals) as bigint)));
  const sorted = minor.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const write = (value: bigint) => `${formatAmount(value, feeDecimals)} ${symbol}`;
  return {
    n: sorted.length,
    median: write(sorted[Math.floor((sorted.length - 1) / 2)]!),
    most: write(sorted.at(-1)!),
  };
}
