import type { ChainAdapter, PrepareFailure } from '../../shared/chain/adapter.ts';
import { mostPayable } from '../../shared/chain/bitcoin/choose-coins.ts';
import type { BitcoinCoin, BitcoinPrepared } from '../../shared/chain/bitcoin/prepared.ts';
import { dustLimit } from '../../shared/chain/bitcoin/size.ts';
import { familyOf } from '../../shared/chain/families.ts';
import type { TransactionPayload } from '../../shared/domain/receipt.ts';
import { sendAlone } from './send-alone.ts';
import type { WalletTransfer } from './wallet-transfer.ts';
import type { RecoveredWallet } from './wallets.ts';

export interface BitcoinTerms {
  to: string;
  /** Satoshis for a thousand virtual bytes; undefined: what is asked now. */
  satPerKvb: bigint | undefined;
  /** False: nothing is sent, only told. */
  send: boolean;
}

/**
 * Empties one wallet of its confirmed coins, in as many transactions as they need. A wallet that has nothing, and the one
 * that the money goes to, are passed by. What is left then, as change under way and coins beyond the largest ones that a
 * server is asked for, goes with a repeat.
 * @throws RpcUnavailable, FeeAboveCeiling
 */
export async function* sweepBitcoinWallet(
  adapter: ChainAdapter,
  wallet: RecoveredWallet,
  terms: BitcoinTerms,
): AsyncGenerator<WalletTransfer> {
  const { chain } = adapter;
  const { to } = terms;
  const { address: from, path } = wallet;
  if (from === to) return;
  const amountMinor = dustLimit(to, chain.id);
  const asked = await adapter.prepare({ from, to, token: chain.tokens[0]!, amountMinor });
  if (asked.outcome === 'failed') {
    if (!isEmpty(asked)) yield transferOf({ problem: asked.message });
    return;
  }
  if ((asked as BitcoinPrepared).coins.length === 0)
    return void (yield transferOf({ problem: 'its coins are being spent already: repeat when that is in a block' }));
  const prepared = { ...(asked as BitcoinPrepared), ...(terms.satPerKvb && { satPerKvb: `${terms.satPerKvb}` }) };
  for (let coins = prepared.coins; coins.length > 0; ) {
    const most = mostPayable({ payment: { chain: chain.id, from, to }, coins, rates: prepared });
    const about = { amountMinor: `${most.amountSat}`, feeMinor: `${most.feeSat}` };
    if (most.amountSat < amountMinor) {
      const problem = `${sumOf(coins)} sat are less than the transfer would cost`;
      yield transferOf({ ...about, amountMinor: '0', problem });
      return;
    }
    const payload = await buildFor({ from, to, prepared: { ...prepared, coins }, most });
    yield transferOf({ ...about, ...(terms.send && (await sendAlone(adapter, wallet, payload))) });
    const { inputs } = (payload as Extract<TransactionPayload, { kind: 'bitcoin-transaction' }>).transaction;
    const spent = new Set(inputs.map(nameOf));
    coins = coins.filter((coin) => !spent.has(nameOf(coin)));
  }

  function transferOf(about: Partial<WalletTransfer>): WalletTransfer {
    return { path, from, asset: 'native', amountMinor: '0', feeMinor: '0', ...about };
  }

  async function buildFor(p: {
    from: string;
    to: string;
    prepared: BitcoinPrepared;
    most: { amountSat: bigint; feeSat: bigint };
  }): Promise<TransactionPayload> {
    const amounts = { amount_minor: `${p.most.amountSat}`, max_fee_minor: `${p.most.feeSat}` };
    const built = await familyOf(chain.id).build({
      ...p,
      intent: { chain: chain.id, asset: 'native', to, ...amounts },
      places: { nextNonce: async (minedCount) => minedCount, freeCoins: async (coins) => [...coins] },
    });
    if (built.outcome !== 'built') throw new Error(`nothing can be built of the coins of ${from}`);
    return built.payload;
  }
}

const nameOf = ({ txid, vout }: { txid: string; vout: number }) => `${txid}:${vout}`;
const sumOf = (coins: readonly BitcoinCoin[]) => coins.reduce((sum, { valueSat }) => sum + BigInt(valueSat), 0n);
const isEmpty = ({ code, details }: PrepareFailure) => code === 'insufficient_funds' && details.balance === '0';
