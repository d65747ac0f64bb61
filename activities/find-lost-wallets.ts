import type { ChainAdapter, Chains } from '../shared/chain/adapter.ts';
import { familyOf } from '../shared/chain/families.ts';
import { insertWallet } from '../shared/db/agents.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import {
  findWalletByPath,
  insertRestoredAgent,
  type KeyWithIndexes,
  listKeysWithIndexes,
  raiseNextIndex,
} from '../shared/db/restored.ts';
import { findLost } from '../shared/domain/lost-wallets.ts';
import { formatAmount } from '../shared/domain/money.ts';
import type { RestoreFinding } from '../shared/domain/restore.ts';
import { newId } from '../shared/ids.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Keys that are read from the database at once. */
const pageSize = 20;
/** Wallets that a chain is asked about at once. */
const width = 5;
/** No key is begun later than this; the next call goes on. */
const limitMs = 60_000;

/** What was found, the key behind which the next call goes on (null: there is none), and chains that cannot be read. */
export interface LostWallets {
  readonly findings: readonly RestoreFinding[];
  readonly next: string | null;
  readonly unread: readonly string[];
}

/** A child of a key that holds something. */
interface FundedWallet {
  readonly path: string;
  readonly address: string;
  /** The first chain on which it holds something. */
  readonly chain: string;
  /** In words: amount, token and chain. */
  readonly holds: string[];
}

/**
 * Asks every chain for wallets of the accounts' keys that hold money and have no row: they were given out in the time that
 * was lost, and never paid, so no signer knows of them. Each gets an agent, inactive, so that its money can be paid out.
 * Money that comes later to one that is empty now is found by looking again.
 * @param p.dryRun says what is there, and does nothing
 * @param p.leaveOut chains that could not be read before
 */
export function createFindLostWallets({ pool, chains }: { pool: Pool; chains: Chains }) {
  return function findLostWallets({
    dryRun,
    after,
    leaveOut,
  }: {
    dryRun: boolean;
    after: string;
    leaveOut: readonly string[];
  }): Promise<LostWallets> {
    return withHeartbeat(async () => {
      const deadline = performance.now() + limitMs;
      const unread = new Set(leaveOut);
      const findings: RestoreFinding[] = [];
      for (let last = after; ; ) {
        const keys = await listKeysWithIndexes(pool, { after: last, limit: pageSize });
        for (const key of keys) {
          if (performance.now() >= deadline) return { findings, next: last, unread: [...unread] };
          for (const wallet of await fundedOf(key, { chains, unread })) findings.push(await tell(wallet, key));
          last = key.id;
        }
        if (keys.length < pageSize) return { findings, next: null, unread: [...unread] };
      }
    });

    async function tell(wallet: FundedWallet, key: KeyWithIndexes): Promise<RestoreFinding> {
      const agentId = dryRun ? undefined : await giveAgent(pool, { wallet, key });
      const { address, path, holds } = wallet;
      const held = `Address ${address} of account ${key.account_id} (key ${key.id}, ${path}) holds ${holds.join(', ')}, and its agent was lost before it paid anything`;
      const detail =
        agentId === undefined
          ? `${held}, unless it is told of above.`
          : `${held}. It is there again as agent ${agentId}, inactive: find out whose it was, name it and give it policies, then activate it to pay that out.`;
      return { what: 'wallet_found', id: agentId ?? '', detail };
    }
  };
}

/** Wallets without a row that hold something on any chain. A chain that does not answer is left out from then on. */
async function fundedOf(
  key: KeyWithIndexes,
  { chains, unread }: { chains: Chains; unread: Set<string> },
): Promise<FundedWallet[]> {
  const found = new Map<string, FundedWallet>();
  for (const [chain, adapter] of chains) {
    if (unread.has(chain)) continue;
    const { coinType, deriveAddress } = familyOf(chain);
    const pathOf = (index: number) => `m/44/${coinType(chain)}/0/0/${index}`;
    const addressOf = (index: number) =>
      deriveAddress({ publicKey: key.public_key, chainCode: key.chain_code, path: pathOf(index), chain });
    try {
      const lost = await findLost({
        ...{ used: key.used, nextIndex: key.next_index },
        look: (indexes) => inTurns(indexes, (index) => holdsOf(adapter, addressOf(index))),
      });
      for (const { index, what } of lost) {
        const [path, address] = [pathOf(index), addressOf(index)];
        const wallet = found.get(address) ?? { path, address, chain, holds: [] };
        wallet.holds.push(what);
        found.set(address, wallet);
      }
    } catch {
      unread.add(chain);
    }
  }
  return [...found.values()];
}

/** @returns what an address holds on a chain, in words; undefined for nothing. @throws Error where a token is not told */
async function holdsOf(adapter: ChainAdapter, owner: string): Promise<string | undefined> {
  const { data } = await adapter.balances({ owner });
  const held = data.flatMap((each) => {
    if ('error' in each) throw new Error(each.error);
    const { symbol, decimals } = each.token;
    return each.amountMinor > 0n ? [`${formatAmount(each.amountMinor, decimals)} ${symbol}`] : [];
  });
  return held.length === 0 ? undefined : `${held.join(' and ')} on ${adapter.chain.name}`;
}

async function inTurns<T>(indexes: readonly number[], look: (index: number) => Promise<T>): Promise<T[]> {
  const found: T[] = [];
  for (let start = 0; start < indexes.length; start += width)
    found.push(...(await Promise.all(indexes.slice(start, start + width).map(look))));
  return found;
}

/** Gives a lost wallet an agent, once however often it is found. @returns the agent's id */
function giveAgent(pool: Pool, { wallet, key }: { wallet: FundedWallet; key: KeyWithIndexes }): Promise<string> {
  return inTransaction(pool, async (db) => {
    const { path, address, chain } = wallet;
    await raiseNextIndex(db, { keyId: key.id, above: Number(path.split('/').at(-1)) });
    // The key's row is locked now: of two at once, the second one sees what the first one made.
    const known = await findWalletByPath(db, { keyId: key.id, path });
    if (known) return known.agent_id;
    const agentId = newId('agent');
    await insertRestoredAgent(db, { id: agentId, accountId: key.account_id, name: `Restored ${agentId}`, chain });
    await insertWallet(db, { id: newId('wal'), agentId, accountKeyId: key.id, path, address });
    return agentId;
  });
}
