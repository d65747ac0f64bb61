import type { AuthorizationUse, ChainAdapter } from '../shared/chain/adapter.ts';
import { storeHead } from '../shared/db/chain-heads.ts';
import {
  hasOpenAuthorizations,
  listOpenAuthorizations,
  type OpenAuthorizationRow,
} from '../shared/db/open-authorizations.ts';
import type { Queryable } from '../shared/db/pool.ts';
import type { Logger } from '../shared/log.ts';
import { factBy, factOf, standingOf } from './check-authorization.ts';
import { type AuthorizationFact, recordAuthorization } from './record-authorization.ts';

/** Blocks whose events are read after a pause; when more have passed, each open authorisation is asked about instead. */
const maxBlocksBehind = 100;
/** Open authorisations that are watched; what is beyond is asked about by its workflow. */
const maxOpen = 2_000;
/** Authorisations that are asked about at once after a start. */
const width = 20;
/** How often the head is noted where no new block comes, so that the chain is known to be watched. */
const noteEveryMs = 10_000;
/** Whoever waits for a settlement waits for whole blocks: looks need not be closer. */
const shortestLookMs = 100;

export interface AuthorizationFollower {
  /** Does what there is to do now. @returns `idle` when no authorisation is open; the chain was not asked anything then */
  round(): Promise<'idle' | 'busy'>;
  /** How far the newest final block, as most endpoints last showed it, is past what was read; 0 while none is open. */
  lagBlocks(): number;
}

/**
 * Looks which open authorisations the chain has seen used, by the events of final blocks: one question for all of them; and
 * which are over unused.
 * It remembers how far it has read and nothing else.
 * @param db the connection that holds the leader's lock; used by nobody else during a round
 * @param wake called for each payment of which something was noted
 */
export function createAuthorizationFollower({
  db,
  adapter,
  wake,
  logger,
}: {
  db: Queryable;
  adapter: ChainAdapter;
  wake: (ledgerId: string) => void;
  logger: Logger;
}): AuthorizationFollower {
  const { id: chain, confirmations } = adapter.chain;
  const lookEveryMs = Math.max(adapter.pollMs / 2, shortestLookMs);
  /** The last block whose events were read; nothing after a start or a sleep. */
  let readTo: number | undefined;
  /** The final block of the last look. */
  let seenTo: number | undefined;
  /** Final blocks that were shown since a start or a sleep, whether or not they could be read. */
  let finals: { readonly first: number; readonly newest: number } | undefined;
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  let notedAtMs = Number.NEGATIVE_INFINITY;

  return {
    async round() {
      if (performance.now() - lookedAtMs < lookEveryMs) return 'busy';
      if (!(await hasOpenAuthorizations(db, { chain }))) {
        [readTo, seenTo, finals] = [undefined, undefined, undefined];
        return 'idle';
      }
      lookedAtMs = performance.now();
      await look();
      return 'busy';
    },
    lagBlocks: () => (finals === undefined ? 0 : Math.max(finals.newest - (readTo ?? finals.first - 1), 0)),
  };

  async function look(): Promise<void> {
    const { number, hash } = await adapter.head();
    const final = number - confirmations + 1;
    const isNew = final >= 0 && final !== seenTo;
    if (isNew) finals = { first: finals?.first ?? final, newest: final };
    if (isNew || lookedAtMs - notedAtMs > noteEveryMs) {
      await storeHead(db, { chain, number, hash });
      notedAtMs = lookedAtMs;
    }
    if (!isNew) return;
    // Listed after the head was read: whatever those blocks used was stamped before, and is in the list.
    const open = await listOpenAuthorizations(db, { chain, limit: maxOpen });
    const isNear = readTo !== undefined && final - readTo <= maxBlocksBehind;
    const isRead = isNear ? await readEvents(open, { fromBlock: readTo! + 1, toBlock: final }) : await askAll(open);
    if (isNear) await askDue();
    seenTo = final;
    // An endpoint that lags shows an earlier head; what was read stays read.
    if (isRead) readTo = Math.max(final, readTo ?? final);
  }

  /** @returns whether the endpoints agree about these blocks */
  async function readEvents(
    open: readonly OpenAuthorizationRow[],
    { fromBlock, toBlock }: { fromBlock: number; toBlock: number },
  ): Promise<boolean> {
    if (fromBlock > toBlock || open.length === 0) return true;
    const tokens = [...new Set(open.map(({ asset }) => asset))];
    const nonces = open.map(({ auth_nonce }) => auth_nonce);
    const uses = await adapter.authorizationEvents({ tokens, nonces, fromBlock, toBlock });
    const byKey = new Map(open.map((row) => [keyOf(row.asset, row.from_address, row.auth_nonce), row]));
    for (const use of uses ?? []) {
      const row = byKey.get(keyOf(use.token, use.authorizer, use.nonce));
      if (row) await note(row, { nonce: row.auth_nonce, use });
    }
    return uses !== undefined;
  }

  /**
   * Asks about each by itself, as after a start.
   * @returns true also where endpoints disagree about one: its workflow asks again
   */
  async function askAll(open: readonly OpenAuthorizationRow[]): Promise<boolean> {
    for (let start = 0; start < open.length; start += width) {
      const part = open.slice(start, start + width);
      const facts = await Promise.all(part.map((row) => factOf(adapter, row)));
      for (const [index, fact] of facts.entries()) if (fact) await note(part[index]!, fact);
    }
    return true;
  }

  /**
   * Asks about those whose time is over by the clock, the soonest first: as soon as the final block is not past one, it is
   * past none of the others.
   */
  async function askDue(): Promise<void> {
    const open = await listOpenAuthorizations(db, { chain, limit: maxOpen });
    const due = open.filter(({ valid_before }) => Number(valid_before) * 1000 < Date.now());
    for (let start = 0; start < due.length; ) {
      const part = due.slice(start, start === 0 ? 1 : start + width);
      start += part.length;
      const standings = await Promise.all(part.map((row) => standingOf(adapter, row)));
      for (const [index, standing] of standings.entries()) {
        const row = part[index]!;
        const fact = factBy(row, standing);
        if (fact) await note(row, fact);
      }
      if (standings.some((each) => each.outcome === 'unused' && !each.isOver)) return;
    }
  }

  /** In one database transaction. One that cannot be noted must not keep the others from it. */
  async function note({ id: ledgerId }: OpenAuthorizationRow, fact: AuthorizationFact): Promise<void> {
    try {
      await db.query('begin');
      await recordAuthorization(db, { ledgerId, fact });
      await db.query('commit');
      wake(ledgerId);
    } catch (error) {
      await db.query('rollback');
      logger.error({ chain, ledger_id: ledgerId, err: error }, 'what became of an authorisation cannot be noted');
    }
  }
}

const keyOf = (...[token, authorizer, nonce]: [AuthorizationUse['token'], string, string]) =>
  `${token} ${authorizer} ${nonce}`.toLowerCase();
