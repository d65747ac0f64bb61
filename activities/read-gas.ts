import type { ChainAdapter, Chains } from '../shared/chain/adapter.ts';
import { databaseClock } from '../shared/db/clock.ts';
import { insertEvent } from '../shared/db/events.ts';
import { type GasWallet, listGasWallets, lockGasLevel, storeGasLevel } from '../shared/db/gas-levels.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import { type GasReading, judgeGas } from '../shared/domain/gas.ts';
import { formatAmount } from '../shared/domain/money.ts';
import type { GasRead, ReadGasInput } from '../shared/temporal.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Wallets that are listed at a time, of which the endpoints are asked about so many at once. */
const [pageSize, width] = [100, 10];
/** No page is begun later than this; the next run goes on with those that were read the longest ago. */
const limitMs = 60_000;

/** @param lowTransfers usual transfers that a wallet with tokens is to be able to pay for */
export interface ReadGasDependencies {
  readonly pool: Pool;
  readonly chains: Chains;
  readonly lowTransfers: number;
}

/**
 * Reads the coins for fees of every wallet on a chain that may need some, and tells receivers of events of each that has
 * become low. Safe to repeat, and from several workers at once: a fall is told once.
 * @throws RpcUnavailable when no wallet could be read
 */
export function createReadGas(deps: ReadGasDependencies) {
  return function readGas({ chain }: ReadGasInput): Promise<GasRead> {
    return withHeartbeat(async () => {
      const adapter = deps.chains.get(chain);
      const transferMinor = await adapter?.transferFee();
      if (!adapter || transferMinor === undefined) return { chain, read: 0, low: 0, failed: 0 };
      const deadline = performance.now() + limitMs;
      const before = await databaseClock(deps.pool);
      const seen = new Set<string>();
      const sum = { chain, read: 0, low: 0, failed: 0 };
      while (performance.now() < deadline) {
        const listed = await listGasWallets(deps.pool, { chain, before, limit: pageSize + sum.failed });
        const fresh = listed.filter(({ wallet_id: id }) => !seen.has(id));
        if (fresh.length === 0) break;
        for (let start = 0; start < fresh.length; start += width) {
          const part = fresh.slice(start, start + width);
          const levels = await Promise.allSettled(
            part.map((wallet) => readOne(deps, { adapter, wallet, transferMinor })),
          );
          for (const { wallet_id: id } of part) seen.add(id);
          for (const level of levels) {
            if (level.status === 'fulfilled') sum.read += 1;
            else sum.failed += 1;
            if (level.status === 'fulfilled' && level.value.isLow) sum.low += 1;
          }
          // A chain that answers nothing is left alone until the next run.
          const [first] = levels;
          if (sum.read === 0 && first?.status === 'rejected') throw first.reason;
        }
      }
      return sum;
    });
  };
}

async function readOne(
  { pool, lowTransfers }: ReadGasDependencies,
  { adapter, wallet, transferMinor }: { adapter: ChainAdapter; wallet: GasWallet; transferMinor: bigint },
): Promise<{ isLow: boolean }> {
  const readAt = await databaseClock(pool);
  const { data } = await adapter.balances({ owner: wallet.address });
  const [native, ...tokens] = data.map((each) => ('error' in each ? undefined : each.amountMinor));
  if (native === undefined) throw new Error(`The chain does not say what ${wallet.address} holds of its coin.`);
  const reading = {
    ...{ balanceMinor: native, transferMinor },
    holdsTokens: tokens.some((amountMinor) => amountMinor !== undefined && amountMinor > 0n),
  };
  return inTransaction(pool, async (db) => {
    const level = { walletId: wallet.wallet_id, chain: adapter.chain.id };
    const row = await lockGasLevel(db, level);
    // Another run has read it meanwhile.
    if (row && row.read_at > readAt) return { isLow: row.is_low };
    const former = row && { balanceMinor: BigInt(row.balance_minor), isLow: row.is_low };
    const judged = judgeGas(reading, { lowTransfers, former });
    await storeGasLevel(db, { ...level, ...reading, ...judged, readAt });
    if (judged.isLow && !former?.isLow)
      await insertEvent(db, {
        accountId: wallet.account_id,
        agentId: wallet.agent_id,
        type: 'agent.low_gas',
        resourceType: 'agent',
        resourceId: wallet.agent_id,
        data: describe({ adapter, wallet, reading, transfersLeft: judged.transfersLeft }),
      });
    return judged;
  });
}

/** Data of the event. */
function describe({
  adapter: { chain },
  wallet: { agent_id, address },
  reading,
  transfersLeft,
}: {
  adapter: ChainAdapter;
  wallet: GasWallet;
  reading: GasReading;
  transfersLeft: number;
}) {
  const { symbol, decimals } = chain.tokens[0]!;
  const [balance, transfer_cost] = [reading.balanceMinor, reading.transferMinor].map((minor) =>
    formatAmount(minor, decimals),
  );
  const message = `The wallet ${address} holds ${balance} ${symbol} on ${chain.name}, which pays for ${transfersLeft} transfers of a token at ${transfer_cost} ${symbol} each. Send it some ${symbol}.`;
  return {
    ...{ agent_id, chain: chain.id, address, token: symbol, balance, transfer_cost },
    ...{ transfers_left: transfersLeft, message },
  };
}
