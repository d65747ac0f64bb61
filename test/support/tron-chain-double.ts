import { createHash } from 'node:crypto';
import { bytesOf, hexOf, type ReadTransaction, readTransaction } from './tron-bytes.ts';
import {
  type Account,
  checkSignature,
  emptyState,
  execute,
  mainnetPrices,
  type Prices,
  type Receipt,
  Refusal,
  type State,
  setAccount,
  setTokens,
  type TokenRules,
  tokensOf,
} from './tron-ledger-double.ts';

export interface Included {
  readonly transaction: ReadTransaction;
  readonly receipt: Receipt;
}

export interface DoubleBlock {
  readonly number: number;
  /** Eight bytes of the number, then the hash. */
  readonly id: string;
  readonly parentId: string;
  readonly timestampMs: number;
  readonly included: readonly Included[];
  /** As it is after the block. */
  readonly state: State;
}

/** Ids of the first blocks; the last four bytes name the chain. */
const genesisIds: Readonly<Record<string, string>> = {
  'tron:0x2b6653dc': '00000000000000001ebf88508a03865c71d452e25f4d51194196a1d22b6653dc',
  'tron:0xcd8690dc': '0000000000000000d698d4192c56cb6be724a558448e2684802de4d6cd8690dc',
};

/** Time between two blocks. Source: java-tron, `BLOCK_PRODUCED_INTERVAL`. */
const blockMs = 3_000;
/** The furthest that an expiration may lie ahead. Source: java-tron, `MAXIMUM_TIME_UNTIL_EXPIRATION`. */
const longestLifeMs = 24 * 60 * 60_000;

/** The chain of the double: blocks, what waits for one, and what is solid. All its time is that of its blocks. */
export class TronChainDouble {
  prices: Prices = mainnetPrices;
  /** Blocks between the newest and the newest solidified one. */
  solidityLag = 19;
  readonly #rules = new Map<string, TokenRules>();
  #blocks: DoubleBlock[];
  #pending: Included[] = [];
  #pendingState: State;
  #solid = 0;
  #fork = 0;

  constructor({ chain, nowMs }: { chain: string; nowMs: number }) {
    const id = genesisIds[chain];
    if (!id) throw new Error(`The double does not know ${chain}.`);
    this.#blocks = [{ number: 0, id, parentId: '0'.repeat(64), timestampMs: 0, included: [], state: emptyState }];
    this.#pendingState = emptyState;
    this.produce({ timestampMs: nowMs - 30 * blockMs });
    for (let n = 1; n <= 30; n++) this.produce();
  }

  get head(): DoubleBlock {
    return this.#blocks.at(-1)!;
  }

  get solid(): DoubleBlock {
    return this.#blocks[this.#solid]!;
  }

  /** Also what waits counts there, as with a real node. */
  get newestState(): State {
    return this.#pendingState;
  }

  get pendingIds(): string[] {
    return this.#pending.map(({ transaction }) => transaction.id);
  }

  block(number: number): DoubleBlock | undefined {
    return this.#blocks[number];
  }

  rules(contract: string): TokenRules | undefined {
    return this.#rules.get(contract);
  }

  /** What an account has from now on, in the newest block too. */
  setAccount(address: string, change: Partial<Account>): void {
    this.#change((state) => setAccount(state, address, change));
  }

  addToken(contract: string, rules: TokenRules = {}): void {
    this.#rules.set(contract, { ...this.#rules.get(contract), ...rules });
    this.#change((state) => setTokens(state, contract, contract, tokensOf(state, contract, contract)));
  }

  setTokens(contract: string, holder: string, amount: bigint): void {
    if (!this.#rules.has(contract)) this.addToken(contract);
    this.#change((state) => setTokens(state, contract, holder, amount));
  }

  /**
   * Takes signed bytes in, to wait for a block.
   * @throws Refusal as a node says no
   */
  push(raw: string): ReadTransaction {
    const transaction = readTransaction(bytesOf(raw));
    if (Number(transaction.expirationMs) < this.head.timestampMs + blockMs)
      throw new Refusal('TRANSACTION_EXPIRATION_ERROR', 'Transaction expired');
    checkSignature(transaction);
    this.#admit(transaction);
    return transaction;
  }

  /** One more block. @param p.include which of those that wait; default all */
  produce(p: { timestampMs?: number; include?: (id: string) => boolean } = {}): DoubleBlock {
    const { include = () => true } = p;
    const parent = this.head;
    const timestampMs = p.timestampMs ?? parent.timestampMs + blockMs;
    if (timestampMs <= parent.timestampMs) throw new Error('A block is later than its parent.');
    const waiting = this.#pending;
    const left = waiting.filter(({ transaction }) => !include(transaction.id));
    const included: Included[] = [];
    let state = parent.state;
    for (const { transaction } of waiting.filter((each) => !left.includes(each)))
      try {
        this.#check(transaction);
        const done = this.#execute(state, transaction);
        state = done.state;
        included.push({ transaction, receipt: done.receipt });
      } catch (error) {
        // A producer drops what it cannot carry out.
        if (!(error instanceof Refusal)) throw error;
      }
    const number = parent.number + 1;
    const id = blockId({ number, parentId: parent.id, timestampMs, fork: this.#fork, included });
    this.#blocks.push({ number, id, parentId: parent.id, timestampMs, included, state });
    this.#solid = Math.max(this.#solid, number - this.solidityLag, 0);
    this.#restart(left);
    return this.head;
  }

  /**
   * Puts one more block than it takes away in the place of the last ones, none of them solid.
   * @param p.forget what was in them does not wait for another block
   * @param p.include which of those that wait are in the first new block; default all
   */
  reorg({
    depth,
    forget = false,
    ...rest
  }: {
    depth: number;
    forget?: boolean;
    include?: (id: string) => boolean;
  }): void {
    if (this.head.number - depth < this.#solid) throw new Error('A solidified block stays.');
    const removed = this.#blocks.splice(-depth);
    this.#fork++;
    this.#restart([...(forget ? [] : removed.flatMap(({ included }) => included)), ...this.#pending]);
    for (let n = 0; n <= depth; n++) this.produce(rest);
  }

  /** Nobody knows any more what waited. */
  forgetPending(): void {
    this.#restart([]);
  }

  find(id: string, { solid = false } = {}): { block: DoubleBlock; included: Included } | undefined {
    for (let number = solid ? this.#solid : this.head.number; number > 0; number--) {
      const block = this.#blocks[number]!;
      const included = block.included.find(({ transaction }) => transaction.id === id);
      if (included) return { block, included };
    }
    return undefined;
  }

  findPending(id: string): Included | undefined {
    return this.#pending.find(({ transaction }) => transaction.id === id);
  }

  #admit(transaction: ReadTransaction): void {
    this.#check(transaction);
    if (this.findPending(transaction.id)) throw new Refusal('DUP_TRANSACTION_ERROR', 'Dup transaction.');
    const { state, receipt } = this.#execute(this.#pendingState, transaction);
    this.#pendingState = state;
    this.#pending.push({ transaction, receipt });
  }

  #check(transaction: ReadTransaction): void {
    const reference = this.#referenced(transaction.refBlockBytes);
    if (reference?.id.slice(16, 32) !== transaction.refBlockHash)
      throw new Refusal('TAPOS_ERROR', 'Tapos check error.');
    const [expirationMs, headMs] = [Number(transaction.expirationMs), this.head.timestampMs];
    if (expirationMs <= headMs || expirationMs > headMs + longestLifeMs)
      throw new Refusal('TRANSACTION_EXPIRATION_ERROR', 'Transaction expired');
    if (this.find(transaction.id)) throw new Refusal('DUP_TRANSACTION_ERROR', 'Dup transaction.');
  }

  #execute(state: State, transaction: ReadTransaction): { state: State; receipt: Receipt } {
    return execute(state, transaction, { prices: this.prices, rules: (contract) => this.#rules.get(contract) });
  }

  /** The newest block whose number ends in these two bytes. */
  #referenced(refBlockBytes: string): DoubleBlock | undefined {
    return this.#blocks.findLast(({ id }) => id.slice(12, 16) === refBlockBytes);
  }

  #restart(pending: readonly Included[]): void {
    this.#pending = [];
    this.#pendingState = this.head.state;
    for (const { transaction } of pending)
      try {
        this.#admit(transaction);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
      }
  }

  #change(change: (state: State) => State): void {
    const head = this.#blocks.pop()!;
    this.#blocks.push({ ...head, state: change(head.state) });
    this.#pendingState = change(this.#pendingState);
  }
}

function blockId(p: {
  number: number;
  parentId: string;
  timestampMs: number;
  fork: number;
  included: readonly Included[];
}) {
  const ids = p.included.map(({ transaction }) => transaction.id).join();
  const digest = createHash('sha256').update(`${p.parentId} ${p.timestampMs} ${p.fork} ${ids}`).digest();
  return p.number.toString(16).padStart(16, '0') + hexOf(digest.subarray(8));
}
