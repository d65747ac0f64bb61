import { setTimeout as delay } from 'node:timers/promises';
import {
  type Address,
  createTestClient,
  erc20Abi,
  type Hex,
  http,
  parseAbiItem,
  parseEther,
  parseGwei,
  publicActions,
  type TransactionReceipt,
  walletActions,
} from 'viem';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { anvil as anvilChain } from 'viem/chains';
import { argsOf, readHeader, transferWithAuthorization } from '../../test/support/paid-api.ts';

/** Blocks read in one request. */
const blockBatch = 100;
const fastestBlockMs = 20;
const knowsWithinMs = 60_000;
const usualBaseFeeWei = 1_000_000n;
const usualGas = 30_000_000n;
/** Pause between two tries to have a header used. */
const useMs = 200;
/** More than a block ever costs here. */
const dearGas = parseGwei('100');
const authorizationUsed = parseAbiItem('event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)');
/** Less than any transaction needs. */
const tooLittleGas = 15_000n;

/** A transaction of a block, as the chain has it. */
export interface Mined {
  readonly hash: Hex;
  readonly nonce: number;
  readonly to: Address;
  readonly valueWei: bigint;
  readonly data: Hex;
  readonly succeeded: boolean;
  readonly feeWei: bigint;
}

/** The chain of the run, asked directly: what it says is the truth that everything else is held against. */
export interface CrashChain {
  /** A block every so often, also without transactions. */
  setBlockTime(ms: number): void;
  reorg(depth: number): Promise<void>;
  /** Forgets every transaction that waits for a block. */
  emptyPool(): Promise<void>;
  /** Has every block cost so much, until it is told otherwise; the node drops what offers less. */
  setBaseFee(wei?: bigint): void;
  /** Whether blocks have room for a transaction; without, it goes on waiting in the pool. */
  setRoom(isThere: boolean): void;
  /** Resolves when so many more blocks are there. */
  pass(blocks: number): Promise<void>;
  /** Transactions of a wallet in blocks that no reorganisation reaches, in the order of their nonces. */
  sentBy(wallet: Address): Promise<Mined[]>;
  transactionCount(wallet: Address): Promise<number>;
  /** Hands an x402 header to the token until no reorganisation can undo its use, or until it is over. */
  useHeader(header: string, token: Address): Promise<void>;
  /** Authorisations of a wallet used in blocks that no reorganisation reaches, and the time of the last of those. */
  usedBy(wallet: Address, token: Address): Promise<{ used: Map<Hex, Hex>; chainTime: number }>;
  balances(wallet: Address, token: Address): Promise<{ wei: bigint; minorUnits: bigint }>;
  stop(): Promise<void>;
}

/**
 * Takes over the mining of a local chain. From then on transactions wait in its pool for the next block, as on a public one.
 * @param depth blocks from the head on that a reorganisation may replace
 */
export async function takeOverChain({ rpcUrl, depth }: { rpcUrl: string; depth: number }): Promise<CrashChain> {
  const transport = http(rpcUrl, { batch: { batchSize: 200 }, timeout: 30_000, retryCount: 0 });
  const node = createTestClient({ mode: 'anvil', chain: anvilChain, transport, cacheTime: 0 })
    .extend(publicActions)
    .extend(walletActions);
  const bySender = new Map<Address, { hash: Hex; nonce: number; to: Address; valueWei: bigint; data: Hex }[]>();
  let nextBlock = await node.getBlockNumber();
  let blockMs = fastestBlockMs;
  let baseFeeWei = usualBaseFeeWei;
  let hasRoom = true;
  let reading: Promise<void> = Promise.resolve();
  let stopped = false;

  await node.setAutomine(false);
  // A reorganisation beside a block that is being mined would leave the node with a number that has no block.
  let last: Promise<unknown> = Promise.resolve();
  function alone<T>(work: () => Promise<T>): Promise<T> {
    const result = last.then(work);
    last = result.catch(() => {});
    return result;
  }
  const mining = (async () => {
    while (!stopped) {
      await alone(() => insistOn(mineOne));
      await delay(blockMs);
    }
  })();

  async function mineOne(): Promise<void> {
    await node.setNextBlockBaseFeePerGas({ baseFeePerGas: baseFeeWei });
    if (hasRoom) await node.mine({ blocks: 1 });
    else await mineWithout();
  }

  /**
   * The small limit holds for as short as can be: what is sent in that moment is refused for good, which a payment must
   * survive as well, with the reason `dropped`.
   */
  async function mineWithout(): Promise<void> {
    await node.setBlockGasLimit({ gasLimit: tooLittleGas });
    await node.mine({ blocks: 1 });
    await node.setBlockGasLimit({ gasLimit: usualGas });
  }

  async function readUpTo(last: bigint): Promise<void> {
    while (nextBlock <= last) {
      const count = Number(last - nextBlock) + 1;
      const numbers = Array.from({ length: Math.min(count, blockBatch) }, (_, index) => nextBlock + BigInt(index));
      const blocks = await Promise.all(
        numbers.map((blockNumber) => node.getBlock({ blockNumber, includeTransactions: true })),
      );
      for (const { hash, nonce, to, value, input, from } of blocks.flatMap((block) => block.transactions)) {
        const sender = from.toLowerCase() as Address;
        const known = bySender.get(sender) ?? [];
        known.push({ hash, nonce, to: (to ?? '0x').toLowerCase() as Address, valueWei: value, data: input });
        bySender.set(sender, known);
      }
      nextBlock += BigInt(numbers.length);
    }
  }

  const usesOf = (authorizer: Address, token: Address, toBlock: bigint, nonce?: Hex) =>
    node.getLogs({
      ...{ address: token, event: authorizationUsed, fromBlock: 0n, toBlock },
      args: { authorizer, ...(nonce && { nonce }) },
    });

  return {
    setBlockTime(ms) {
      blockMs = ms;
    },
    reorg: (wanted) =>
      alone(async () => {
        await node.request({ method: 'anvil_reorg' as never, params: [wanted, []] as never });
        // The node goes on with the limit of the block that it went back to, which may be one without room.
        await node.setBlockGasLimit({ gasLimit: usualGas });
      }),
    async emptyPool() {
      await node.request({ method: 'anvil_dropAllTransactions' as never });
    },
    setBaseFee(wei = usualBaseFeeWei) {
      baseFeeWei = wei;
    },
    setRoom(isThere) {
      hasRoom = isThere;
    },
    async pass(blocks) {
      const until = (await node.getBlockNumber()) + BigInt(blocks);
      while ((await node.getBlockNumber()) < until) await delay(fastestBlockMs);
    },
    async sentBy(wallet) {
      const settled = (await node.getBlockNumber()) - BigInt(depth);
      reading = reading.then(() => insistOn(() => readUpTo(settled)));
      await reading;
      const sent = bySender.get(wallet.toLowerCase() as Address) ?? [];
      const receipts = await Promise.all(sent.map(({ hash }) => insistOn(() => node.getTransactionReceipt({ hash }))));
      return sent
        .map((each, index) => ({ ...each, ...outcomeOf(receipts[index]!) }))
        .toSorted((a, b) => a.nonce - b.nonce);
    },
    transactionCount: (wallet) => node.getTransactionCount({ address: wallet }),
    async useHeader(header, token) {
      const { authorization } = readHeader(header);
      // A wallet of its own: what becomes of one use is nothing to another.
      const account = privateKeyToAccount(generatePrivateKey());
      await insistOn(() => node.setBalance({ address: account.address, value: parseEther('10') }));
      for (; ; await delay(useMs)) {
        const latest = await insistOn(() => node.getBlock());
        const settled = latest.number - BigInt(depth);
        if (Number(latest.timestamp) > Number(authorization.validBefore)) return;
        const events = await insistOn(() => usesOf(authorization.from, token, settled, authorization.nonce));
        if (events.length > 0) return;
        const nonce = await insistOn(() => node.getTransactionCount({ address: account.address }));
        await node
          .writeContract({
            ...{ account, address: token, abi: transferWithAuthorization, functionName: 'transferWithAuthorization' },
            ...{ args: argsOf(header), gas: 150_000n, nonce, maxFeePerGas: dearGas, maxPriorityFeePerGas: 1n },
          })
          // It waits in the pool already, or there is no room now.
          .catch(() => {});
      }
    },
    async usedBy(wallet, token) {
      const settled = (await node.getBlockNumber()) - BigInt(depth);
      const events = await insistOn(() => usesOf(wallet, token, settled));
      const { timestamp } = await insistOn(() => node.getBlock({ blockNumber: settled }));
      return {
        used: new Map(events.map(({ args, transactionHash }) => [args.nonce!, transactionHash])),
        chainTime: Number(timestamp),
      };
    },
    async balances(wallet, token) {
      const [wei, minorUnits] = await Promise.all([
        node.getBalance({ address: wallet }),
        insistOn(() => node.readContract({ address: token, abi: erc20Abi, functionName: 'balanceOf', args: [wallet] })),
      ]);
      return { wei, minorUnits };
    },
    async stop() {
      stopped = true;
      await mining;
    },
  };
}

/** In the middle of a reorganisation, or of a block without room, the node says less than before and after. */
export async function insistOn<T>(read: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + knowsWithinMs;
  for (;;) {
    try {
      return await read();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await delay(fastestBlockMs);
    }
  }
}

function outcomeOf({ status, gasUsed, effectiveGasPrice }: TransactionReceipt) {
  return { succeeded: status === 'success', feeWei: gasUsed * effectiveGasPrice };
}
