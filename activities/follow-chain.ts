import type { Block, ChainAdapter, Inclusion } from '../shared/chain/adapter.ts';
import {
  type AttemptRow,
  clearInclusions,
  hasOpenAttempts,
  listIncludedAttempts,
  listOpenAttempts,
  listUnsettled,
  matchOpenAttempts,
} from '../shared/db/attempts.ts';
import { storeHead } from '../shared/db/chain-heads.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { noteWaiting, wishForDueSpeed } from '../shared/db/waiting-attempts.ts';
import type { Logger } from '../shared/log.ts';
import { recordFinality, recordInclusion } from './record-inclusion.ts';

/** Blocks that are read one by one after a pause; when more have passed, the open payments are asked about instead. */
const maxBlocksBehind = 48;
/** Blocks remembered beyond the chain's depth, to find where a reorganisation began. */
const spareTrail = 32;
/** Open attempts that are asked about at once after a start. */
const openBatch = 100;
/** Payments that are made final, or woken after a start, in one round. */
const finalBatch = 500;
/** Rounds for which a block waits for a receipt that its node does not have yet. */
const maxReceiptRounds = 40;
/** Rounds after which it is worth telling that endpoints disagree: a few lag behind by some blocks all the time. */
const longDisagreement = 20;
/** Above every block number. */
const lastBlock = Number.MAX_SAFE_INTEGER;

export interface FollowerDependencies {
  /** The connection that holds the leader's lock: once it is lost, nothing can be written any more. */
  readonly db: Queryable;
  readonly adapter: ChainAdapter;
  /** Called for each payment that can be settled now, or that is to offer more. */
  readonly wake: (transactionId: string) => void;
  readonly logger: Logger;
}

/** What is remembered of a block. */
type Seen = Pick<Block, 'number' | 'hash'>;

/** Follows one chain from its head, and notes what becomes of the open attempts. */
export interface Follower {
  /** Does what there is to do now. @returns `idle` when no payment waits; the chain was not asked anything then */
  round(): Promise<'idle' | 'busy'>;
  /** How far the chain's head, as most endpoints last showed it, is past what was read; 0 while no payment waits. */
  lagBlocks(): number;
}

/**
 * The watcher's work without its clock. It remembers the last few block hashes and nothing about payments: those are
 * looked up by the hashes of each block.
 */
export function createFollower({ db, adapter, wake, logger }: FollowerDependencies): Follower {
  const { id: chain, confirmations } = adapter.chain;
  /** The newest blocks that were read, oldest first, each the parent of the next; empty after a start or a sleep. */
  let trail: Seen[] = [];
  /** Heads that were seen since a start or a sleep, whether or not they could be read. */
  let heads: { readonly first: number; readonly newest: number } | undefined;
  let receiptRounds = 0;
  /** Rounds for which endpoints have disagreed about what is due; asked again in every round then, new block or not. */
  let undecidedRounds = 0;

  return {
    async round() {
      if (!(await hasOpenAttempts(db, { chain }))) {
        [trail, heads] = [[], undefined];
        return 'idle';
      }
      const head = await adapter.head();
      heads = { first: heads?.first ?? head.number, newest: head.number };
      if ((await advance(head)) || undecidedRounds > 0) {
        await storeHead(db, { chain, number: head.number, hash: head.hash });
        await finalise(head);
        await speedUp(head);
      }
      return 'busy';
    },
    lagBlocks() {
      if (heads === undefined) return 0;
      return Math.max(heads.newest - (trail.at(-1)?.number ?? heads.first - 1), 0);
    },
  };

  /** Reads what is new up to the head. @returns whether anything is */
  async function advance(head: Block): Promise<boolean> {
    const last = trail.at(-1);
    if (!last || head.number - last.number > maxBlocksBehind) {
      await checkOpen(head);
      return true;
    }
    // An endpoint that lags shows a block that we know already; that is no reorganisation.
    if (trail.some((block) => block.number === head.number && block.hash === head.hash)) return false;
    const next = await blocksAfter(last, head);
    if (next[0]?.parentHash === last.hash) await read(next, head);
    else if (next.length > 0 || head.number <= last.number) await retreat(head);
    return true;
  }

  /** The blocks between the two and the head itself, as far as each is the child of the one before. */
  async function blocksAfter(last: Seen, head: Block): Promise<Block[]> {
    const numbers = Array.from({ length: Math.max(head.number - last.number - 1, 0) }, (_, i) => last.number + 1 + i);
    const found = [...(numbers.length > 0 ? await adapter.blocks({ numbers }) : []), head];
    if (head.number <= last.number) return [];
    const connected: Block[] = [];
    for (const block of found) {
      const before = connected.at(-1);
      if (!block || (before && block.parentHash !== before.hash)) break;
      connected.push(block);
    }
    return connected;
  }

  /** Looks up which transactions of these blocks are ours, and notes their receipts. */
  async function read(blocks: readonly Block[], head: Block): Promise<void> {
    const hashes = blocks.flatMap((block) => block.transactionHashes);
    const ours = hashes.length > 0 ? await matchOpenAttempts(db, { chain, hashes }) : [];
    const receipts = ours.length > 0 ? await receiptsOf(ours, blocks) : [];
    const inclusions = receipts.filter((each) => blocks.some((block) => isIn(block, each)));
    await recordInclusion({ db, adapter }, { headNumber: head.number, inclusions });
    await undoReplaced(blocks);
    // A block counts as read once every receipt of ours is there: a node may know a block before its receipts.
    const missing = new Set(ours.filter((hash) => !inclusions.some((each) => each.hash === hash)));
    const incomplete = blocks.findIndex((block) => block.transactionHashes.some((hash) => missing.has(hash)));
    receiptRounds = incomplete < 0 ? 0 : receiptRounds + 1;
    const isPatient = receiptRounds <= maxReceiptRounds;
    if (!isPatient) {
      logger.warn({ chain, missing: [...missing] }, 'a node has no receipts of a block; going on');
      receiptRounds = 0;
    }
    remember(incomplete >= 0 && isPatient ? blocks.slice(0, incomplete) : blocks);
  }

  /** From one endpoint, as news; where it has not told all the last time, what most say as well. */
  async function receiptsOf(ours: readonly string[], blocks: readonly Block[]): Promise<Inclusion[]> {
    const receipts = await adapter.inclusions({ hashes: ours });
    if (receiptRounds === 0) return receipts;
    const isTold = (block: Block, hash: string) => receipts.some((each) => each.hash === hash && isIn(block, each));
    const placed = blocks.flatMap((block) =>
      ours
        .filter((hash) => block.transactionHashes.includes(hash) && !isTold(block, hash))
        .map((hash) => ({ hash, blockNumber: block.number })),
    );
    const agreed = placed.length > 0 ? await adapter.agreedInclusions({ placed }) : [];
    return [...receipts, ...agreed.flatMap((each) => (each.outcome === 'included' ? [each.inclusion] : []))];
  }

  /** What a start or a check noted in blocks that others have replaced before they were read here. */
  async function undoReplaced(blocks: readonly Block[]): Promise<void> {
    const [fromBlock, toBlock] = [blocks[0]!.number, blocks.at(-1)!.number];
    const noted = await listIncludedAttempts(db, { chain, fromBlock, toBlock, limit: finalBatch });
    await undo(noted.filter((each) => !blocks.some((block) => block.hash === each.block_hash)));
  }

  function remember(blocks: readonly Block[]): void {
    trail = [...trail, ...blocks.map(({ number, hash }) => ({ number, hash }))].slice(-(confirmations + spareTrail));
  }

  /** Goes back to the last block that is still part of the chain, and undoes what was noted above it. */
  async function retreat(head: Block): Promise<void> {
    const current = await adapter.blocks({ numbers: trail.map((block) => block.number) });
    const common = trail.findLastIndex((block, index) => current[index]?.hash === block.hash);
    const ancestor = trail[common];
    logger.warn({ chain, head: head.number, ancestor: ancestor?.number ?? null }, 'the chain was reorganised');
    if (!ancestor) return checkOpen(head);
    const fromBlock = ancestor.number + 1;
    const above = await listIncludedAttempts(db, { chain, fromBlock, toBlock: lastBlock, limit: finalBatch });
    await undo(above);
    trail = trail.slice(0, common + 1);
    receiptRounds = 0;
  }

  /**
   * The bytes once more to a node, for it may have dropped them with their block, and back to waiting. In this order:
   * if no node can be reached, the next round finds the same attempts again.
   */
  async function undo(attempts: readonly AttemptRow[]): Promise<void> {
    if (attempts.length === 0) return;
    await Promise.all(attempts.map(({ raw }) => adapter.send({ raw })));
    await clearInclusions(db, { chain, hashes: attempts.map((each) => each.hash) });
  }

  /** Asks the chain about every open attempt once, as after a start; from there on the head is followed. */
  async function checkOpen(head: Block): Promise<void> {
    for (let after = ''; ; ) {
      const batch = await listOpenAttempts(db, { chain, after, limit: openBatch });
      const inclusions = await adapter.inclusions({ hashes: batch.map((each) => each.hash) });
      await recordInclusion({ db, adapter }, { headNumber: head.number, inclusions });
      const isGone = (hash: string) => !inclusions.some((each) => each.hash === hash);
      await undo(batch.filter((each) => each.block_hash && isGone(each.hash)));
      const last = batch.at(-1);
      if (!last || batch.length < openBatch) break;
      after = last.hash;
    }
    for (const id of await listUnsettled(db, { chain, limit: finalBatch })) wake(id);
    trail = [{ number: head.number - 1, hash: head.parentHash }];
    // The head counts as read only when its receipts are there as well: they may come later than it did.
    await read([head], head);
  }

  /** Has those offer more that no block has taken for long. */
  async function speedUp(head: Block): Promise<void> {
    if (adapter.speedUpAfterBlocks === undefined) return;
    await noteWaiting(db, { chain, headNumber: head.number });
    const wish = { chain, headNumber: head.number, afterBlocks: adapter.speedUpAfterBlocks };
    for (const id of await wishForDueSpeed(db, wish)) wake(id);
  }

  async function finalise(head: Block): Promise<void> {
    const toBlock = head.number - confirmations + 1;
    const due = await listIncludedAttempts(db, { chain, fromBlock: 0, toBlock, limit: finalBatch });
    const { settled, orphaned, undecided } = await recordFinality({ db, adapter }, { headNumber: head.number, due });
    for (const id of settled) wake(id);
    await undo(orphaned);
    report(undecided);
  }

  /** Says once that endpoints go on disagreeing, and once that they agree again. */
  function report(undecided: number): void {
    const before = undecidedRounds;
    undecidedRounds = undecided > 0 ? before + 1 : 0;
    if (undecidedRounds === longDisagreement)
      logger.warn({ chain, payments: undecided }, 'too few endpoints agree about payments that are due; asking again');
    if (undecided === 0 && before >= longDisagreement) logger.info({ chain }, 'the endpoints agree about what is due');
  }
}

function isIn(block: Block, { blockNumber, blockHash }: Inclusion): boolean {
  return block.hash === blockHash && block.number === blockNumber;
}
