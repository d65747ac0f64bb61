import {
  type Address,
  type Chain,
  createWalletClient,
  defineChain,
  encodeFunctionData,
  erc20Abi,
  type Hex,
  http,
  publicActions,
  type WalletClient,
} from 'viem';
import type { PrivateKeyAccount } from 'viem/accounts';

/** One transfer that empties a wallet of one asset. */
export interface Transfer {
  path: string;
  from: Address;
  asset: 'native' | Address;
  amountMinor: string;
  /** The most that the transfer itself can cost. */
  feeWei: string;
  /** Of a transfer that was sent. */
  hash?: Hex;
  /** Why it was not sent, or did not happen. */
  problem?: string;
}

/** A wallet on an EVM chain, able to sign. */
interface EvmWallet {
  path: string;
  account: PrivateKeyAccount;
}

interface SweepTerms {
  to: Address;
  tokens: readonly Address[];
  /** Left in each wallet for what a chain takes besides gas, as some second layers do. */
  reserveWei: bigint;
  /** False: nothing is sent, only told. */
  send: boolean;
}

/** Connects to a chain and asks it for its id, so that no transaction is for another one. */
export async function connectChain(url: string) {
  const nameless = createWalletClient({ transport: http(url) }).extend(publicActions);
  const id = await nameless.getChainId();
  const currency = { name: 'native', symbol: 'native', decimals: 18 };
  const chain: Chain = defineChain({
    id,
    name: `eip155:${id}`,
    nativeCurrency: currency,
    rpcUrls: { default: { http: [url] } },
  });
  return createWalletClient({ chain, transport: http(url) }).extend(publicActions);
}

export type ChainClient = Awaited<ReturnType<typeof connectChain>>;

/** Empties one wallet: tokens first, because they need its native currency, then that. What has nothing is passed by. */
export async function sweepWallet(client: ChainClient, wallet: EvmWallet, terms: SweepTerms): Promise<Transfer[]> {
  const transfers: Transfer[] = [];
  const from = wallet.account.address;
  let spentWei = 0n;
  for (const token of terms.tokens) {
    const amount = await client.readContract({
      abi: erc20Abi,
      address: token,
      functionName: 'balanceOf',
      args: [from],
    });
    if (amount === 0n) continue;
    const data = encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [terms.to, amount] });
    const balanceWei = (await client.getBalance({ address: from })) - (terms.send ? 0n : spentWei);
    const about = { path: wallet.path, from, asset: token, amountMinor: String(amount) };
    const { transfer, costWei } = await transferOne(client, wallet, terms, {
      about,
      balanceWei,
      to: token,
      data,
      valueWei: 0n,
    });
    spentWei += costWei;
    transfers.push(transfer);
  }
  const native = await sweepNative(client, wallet, terms, { spentWei });
  return native ? [...transfers, native] : transfers;
}

async function sweepNative(
  client: ChainClient,
  wallet: EvmWallet,
  terms: SweepTerms,
  p: { spentWei: bigint },
): Promise<Transfer | undefined> {
  const from = wallet.account.address;
  const balanceWei = (await client.getBalance({ address: from })) - (terms.send ? 0n : p.spentWei);
  if (balanceWei <= 0n) return undefined;
  const { feeWei } = await priceOf(client, { from, to: terms.to, valueWei: 1n });
  const valueWei = balanceWei - feeWei - terms.reserveWei;
  const about = {
    path: wallet.path,
    from,
    asset: 'native' as const,
    amountMinor: String(valueWei > 0n ? valueWei : 0n),
  };
  if (valueWei <= 0n) {
    return { ...about, feeWei: String(feeWei), problem: `${balanceWei} wei are less than the transfer would cost` };
  }
  return (await transferOne(client, wallet, terms, { about, balanceWei, to: terms.to, valueWei })).transfer;
}

interface Price {
  gas: bigint;
  maxFeePerGas: bigint;
  maxPriorityFeePerGas: bigint;
  feeWei: bigint;
}

async function priceOf(
  client: ChainClient,
  p: { from: Address; to: Address; data?: Hex; valueWei: bigint },
): Promise<Price> {
  const [fees, gas] = await Promise.all([
    client.estimateFeesPerGas(),
    client.estimateGas({ account: p.from, to: p.to, value: p.valueWei, ...(p.data && { data: p.data }) }),
  ]);
  return { ...fees, gas, feeWei: gas * fees.maxFeePerGas };
}

async function transferOne(
  client: ChainClient,
  wallet: EvmWallet,
  terms: SweepTerms,
  p: {
    about: Omit<Transfer, 'feeWei'>;
    balanceWei: bigint;
    to: Address;
    data?: Hex;
    valueWei: bigint;
  },
): Promise<{ transfer: Transfer; costWei: bigint }> {
  try {
    const call = { to: p.to, ...(p.data && { data: p.data }) };
    const price = await priceOf(client, { from: wallet.account.address, valueWei: p.data ? 0n : 1n, ...call });
    const transfer: Transfer = { ...p.about, feeWei: String(price.feeWei) };
    const missingWei = p.valueWei + price.feeWei - p.balanceWei;
    if (missingWei > 0n) {
      return { transfer: { ...transfer, problem: `the wallet needs ${missingWei} wei more for the fee` }, costWei: 0n };
    }
    if (!terms.send) return { transfer, costWei: price.feeWei };
    const { gas, maxFeePerGas, maxPriorityFeePerGas } = price;
    const hash = await (client as WalletClient).sendTransaction({
      account: wallet.account,
      chain: client.chain,
      value: p.valueWei,
      gas,
      maxFeePerGas,
      maxPriorityFeePerGas,
      ...call,
    });
    const { status } = await client.waitForTransactionReceipt({ hash });
    const problem = status === 'success' ? undefined : 'the chain has reverted it';
    return { transfer: { ...transfer, hash, ...(problem && { problem }) }, costWei: price.feeWei };
  } catch (error) {
    const problem =
      'shortMessage' in (error as object) ? String((error as { shortMessage: string }).shortMessage) : String(error);
    return { transfer: { ...p.about, feeWei: '0', problem }, costWei: 0n };
  }
}
