import {
  type Address,
  createWalletClient,
  encodeFunctionData,
  erc20Abi,
  http,
  parseEther,
  parseUnits,
  publicActions,
} from 'viem';
import { generatePrivateKey, nonceManager, privateKeyToAccount } from 'viem/accounts';
import { anvil } from 'viem/chains';
import type { DevFacts } from '../dev/home.ts';
import { deployToken } from '../dev/token.ts';
import { type BenchToken, recipient } from './payments.ts';

const receiptWithinMs = 60_000;
const lookMs = 5;
const funds = { wei: parseEther('10'), minorUnits: parseUnits('10000', 6) };

/** A wallet whose key is in this process: what a program without the service would use. */
export interface RawWallet {
  /** Prepares, signs, sends and waits for the receipt. Milliseconds from the beginning. */
  pay(o: { token: BenchToken }): Promise<{ hashMs: number; confirmedMs: number }>;
}

/** Makes funded wallets on the stack's own chain, with viem as its documentation shows it. */
export async function createRawWallets({ facts }: { facts: DevFacts }, { count }: { count: number }) {
  const token = await deployToken({ rpcUrl: facts.rpc_url });
  const wallets: RawWallet[] = [];
  for (let index = 0; index < count; index += 1) {
    const account = privateKeyToAccount(generatePrivateKey(), { nonceManager });
    await token.topUp({ address: account.address, ...funds });
    wallets.push(createRawWallet({ facts, account }));
  }
  return wallets;
}

function createRawWallet({
  facts,
  account,
}: {
  facts: DevFacts;
  account: ReturnType<typeof privateKeyToAccount>;
}): RawWallet {
  const transport = http(facts.rpc_url);
  const client = createWalletClient({ account, chain: anvil, transport, pollingInterval: lookMs }).extend(
    publicActions,
  );
  const calls = {
    ETH: { to: recipient, value: parseEther('0.000001') },
    USDC: {
      to: facts.usdc_address as Address,
      data: encodeFunctionData({
        abi: erc20Abi,
        functionName: 'transfer',
        args: [recipient, parseUnits('0.01', 6)],
      }),
    },
  } as const;
  return {
    async pay({ token }) {
      const from = performance.now();
      const hash = await client.sendTransaction(calls[token]);
      const hashMs = performance.now() - from;
      const receipt = await client.waitForTransactionReceipt({ hash, timeout: receiptWithinMs });
      if (receipt.status !== 'success') throw new Error(`The raw transfer ${hash} was reverted.`);
      return { hashMs, confirmedMs: performance.now() - from };
    },
  };
}
