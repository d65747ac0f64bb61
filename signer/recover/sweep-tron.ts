import { setTimeout as sleep } from 'node:timers/promises';
import type { ChainAdapter, PreparedTransfer } from '../../shared/chain/adapter.ts';
import { familyOf } from '../../shared/chain/families.ts';
import type { Token } from '../../shared/chain/registry.ts';
import { sendAlone } from './send-alone.ts';
import type { WalletTransfer } from './wallet-transfer.ts';
import type { RecoveredWallet } from './wallets.ts';

export interface TronTerms {
  to: string;
  /** False: nothing is sent, only told. */
  send: boolean;
}

/** Blocks come every three seconds and are solidified within a minute; what is not by then, hardly will be. */
const settledMaxMs = 180_000;

/**
 * Empties one wallet: tokens first, because their transfers cost TRX, then that. What has nothing, and the wallet that the
 * money goes to, are passed by. Each transfer is waited for, for the next one pays with what it leaves.
 * @param adapter of a chain whose tokens are all that is to be moved
 * @throws RpcUnavailable, FeeAboveCeiling
 */
export async function* sweepTronWallet(
  adapter: ChainAdapter,
  wallet: RecoveredWallet,
  terms: TronTerms,
): AsyncGenerator<WalletTransfer> {
  const { to } = terms;
  const { address: from, path } = wallet;
  if (from === to) return;
  const [native, ...tokens] = adapter.chain.tokens as [Token, ...Token[]];
  let spentSun = 0n;
  for (const token of tokens) {
    const amountMinor = await balanceOf(token);
    if (amountMinor === 0n) continue;
    const transfer = await transferOne(token, amountMinor);
    if (!terms.send && !transfer.problem) spentSun += BigInt(transfer.feeMinor);
    yield transfer;
  }
  const heldSun = (await balanceOf(native)) - spentSun;
  if (heldSun <= 0n) return;
  const quote = (amountMinor: bigint) => adapter.prepare({ from, to, token: native, amountMinor });
  const least = await quote(1n);
  // Bytes are paid for, and a larger amount has up to eight more of them: less than a 16th of a transfer.
  const mostSun = least.outcome === 'ready' ? (BigInt(least.maxFeeMinor) * 17n) / 16n : 0n;
  const quoted = least.outcome === 'ready' && heldSun > mostSun ? await quote(heldSun - mostSun) : least;
  const feeSun = quoted.outcome === 'ready' ? BigInt(quoted.maxFeeMinor) : undefined;
  if (feeSun === undefined || heldSun <= mostSun) {
    const problem =
      quoted.outcome === 'failed' ? quoted.message : `${heldSun} sun are less than the transfer would cost`;
    yield { path, from, asset: 'native', amountMinor: '0', feeMinor: `${feeSun ?? 0n}`, problem };
    return;
  }
  yield await transferOne(native, heldSun - feeSun);

  async function balanceOf(token: Token): Promise<bigint> {
    const { data } = await adapter.balances({ owner: from });
    const found = data.find((each) => each.token.asset === token.asset);
    if (!found || 'error' in found) throw new Error(`${from}: what it holds of ${token.symbol} cannot be read`);
    return found.amountMinor;
  }

  async function transferOne(token: Token, amountMinor: bigint): Promise<WalletTransfer> {
    const about = { path, from, asset: token.asset, amountMinor: `${amountMinor}` };
    const prepared = await adapter.prepare({ from, to, token, amountMinor });
    if (prepared.outcome === 'failed') return { ...about, feeMinor: '0', problem: prepared.message };
    const transfer: WalletTransfer = { ...about, feeMinor: prepared.maxFeeMinor };
    return terms.send ? { ...transfer, ...(await send(prepared, { token, amountMinor })) } : transfer;
  }

  async function send(
    prepared: PreparedTransfer,
    { token, amountMinor }: { token: Token; amountMinor: bigint },
  ): Promise<{ hash: string; problem?: string }> {
    const chain = adapter.chain.id;
    const amounts = { amount_minor: `${amountMinor}`, max_fee_minor: prepared.maxFeeMinor };
    const built = await familyOf(chain).build({
      intent: { chain, asset: token.asset, to, ...amounts },
      from,
      prepared,
      places: { nextNonce: async (minedCount) => minedCount, freeCoins: async (coins) => [...coins] },
    });
    if (built.outcome !== 'built') throw new Error(`nothing can be built of what the chain said about ${from}`);
    const sent = await sendAlone(adapter, wallet, built.payload);
    const problem = sent.problem ?? (await problemOf(sent.hash));
    return { ...sent, ...(problem !== undefined && { problem }) };
  }

  /** Until the chain shows what the transfer has left: balances are those of solidified blocks, a minute behind. */
  async function problemOf(hash: string): Promise<string | undefined> {
    for (const deadline = Date.now() + settledMaxMs; Date.now() < deadline; await sleep(adapter.pollMs)) {
      const [included] = await adapter.inclusions({ hashes: [hash] });
      if (included && !included.succeeded) return 'the chain has reverted it';
      const { atBlock } = await adapter.balances({ owner: from });
      if (included && atBlock >= included.blockNumber) return undefined;
    }
    return 'it is not solidified after three minutes';
  }
}
