// npm run recover -- --backup FILE --backup FILE --identity FILE …
// For the day when two signers are lost for good and their backups are what is left. Run it on a machine that is offline
// but for the chain's endpoint, and that nobody uses afterwards: it does what the service never does.
import type { Address } from 'viem';
import { bytesToHex } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { createChainAdapter } from '../../shared/chain/create-adapter.ts';
import type { Chain } from '../../shared/chain/registry.ts';
import { fail, printResult, usageStatus, wordsOfError } from '../../shared/command-line.ts';
import { tellProgress } from '../../shared/tell-progress.ts';
import { type Options, readOptions, type SweepOptions, USAGE, UsageError } from './options.ts';
import { type RecoveredKey, readBackupShares, recoverKeys } from './recover-keys.ts';
import { connectChain, sweepWallet, type Transfer } from './sweep.ts';
import { sweepBitcoinWallet } from './sweep-bitcoin.ts';
import { sweepTronWallet } from './sweep-tron.ts';
import type { WalletTransfer } from './wallet-transfer.ts';
import { deriveWallets, type RecoveredWallet } from './wallets.ts';

const progress = tellProgress();

/** A fee rate that is given stands in for what is asked, and for what an installation would pay at most. */
const NO_CEILING = 10n ** 12n;

async function handleKey(key: RecoveredKey, o: Options): Promise<object> {
  const wallets = deriveWallets(key, { ...o, chain: o.chainId });
  key.privateKey.fill(0);
  const { keyId, epoch } = key;
  const listed = wallets.map(({ path, address }) => ({ path, address }));
  if (!o.sweep) return { keyId, epoch, ...(o.chain && { chain: o.chain.id }), wallets: listed };
  const { chain, transfers } = o.chain
    ? await sweepByAdapter(o.chain, wallets, o.sweep)
    : await sweepEvm(wallets, o.sweep);
  if (transfers.some(({ problem }) => problem)) process.exitCode = 1;
  return { keyId, epoch, chain, sent: o.sweep.send, transfers };
}

async function sweepEvm(wallets: readonly RecoveredWallet[], { rpcUrl, to, tokens, ...terms }: SweepOptions) {
  const client = await connectChain(rpcUrl);
  const addresses = { to: to as Address, tokens: tokens as readonly Address[] };
  const transfers: Transfer[] = [];
  for (const [index, { path, privateKey }] of wallets.entries()) {
    progress.tell(`wallet ${index + 1} of ${wallets.length}: ${path}`);
    const account = privateKeyToAccount(bytesToHex(privateKey));
    transfers.push(...(await sweepWallet(client, { path, account }, { ...terms, ...addresses })));
  }
  return { chain: `eip155:${client.chain.id}`, transfers };
}

async function sweepByAdapter(chain: Chain, wallets: readonly RecoveredWallet[], o: SweepOptions) {
  const others = o.tokens.filter((asset) => !chain.tokens.some((known) => known.asset === asset));
  // What their decimals are does not matter to a transfer of everything.
  const added = others.map((asset) => ({ symbol: asset, decimals: 0, asset }));
  const adapter = createChainAdapter({
    chain: { ...chain, tokens: [...chain.tokens, ...added] },
    urls: [o.rpcUrl],
    maxFee: o.satPerKvb === undefined ? undefined : NO_CEILING,
  });
  const transfers: WalletTransfer[] = [];
  for (const [index, wallet] of wallets.entries()) {
    progress.tell(`wallet ${index + 1} of ${wallets.length}: ${wallet.path}`);
    const swept =
      chain.family === 'bitcoin' ? sweepBitcoinWallet(adapter, wallet, o) : sweepTronWallet(adapter, wallet, o);
    try {
      for await (const transfer of swept) transfers.push(transfer);
    } catch (error) {
      // What was sent for this wallet and for others is told all the same.
      const { path, address: from } = wallet;
      const problem = (error as Error).message;
      transfers.push({ path, from, asset: 'native', amountMinor: '0', feeMinor: '0', problem });
    }
  }
  return { chain: chain.id, transfers };
}

async function main(args: string[]): Promise<void> {
  if (args.length === 0 || args.includes('--help')) {
    console.log(USAGE);
    return;
  }
  const options = readOptions(args);
  const [first, second] = options.backups;
  const { identities } = options;
  const { recovered, unrecovered } = recoverKeys([
    await readBackupShares({ file: first, identities }),
    await readBackupShares({ file: second, identities }),
  ]);
  const wanted = (key: { keyId: string }) => options.keyId === undefined || key.keyId === options.keyId;
  const keys: object[] = [];
  console.error('The keys are whole in the memory of this process, which they never were before.');
  for (const key of recovered.filter(wanted)) keys.push(await handleKey(key, options));
  progress.end();
  if (options.sweep && !options.sweep.send) console.error('Nothing was sent. With --send these transfers are made.');
  const missing = unrecovered.filter(wanted);
  if (keys.length === 0 && missing.length === 0)
    throw new Error(`the backups have no key ${options.keyId ?? 'at all'}`);
  if (missing.length > 0) process.exitCode = 1;
  printResult({ keys, unrecovered: missing }, options);
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  progress.end();
  const summary = wordsOfError(error);
  if (error instanceof UsageError) fail(`${summary}\n${USAGE}`, { status: usageStatus, summary });
  fail(summary);
}
