import {
  type Address,
  decodeEventLog,
  encodeEventTopics,
  encodeFunctionData,
  type Hex,
  numberToHex,
  parseAbi,
  type RpcBlock,
  type RpcLog,
} from 'viem';
import type { AuthorizationSlot, AuthorizationStanding, AuthorizationUse } from '../adapter.ts';
import { type Heard, hearAll, mostNamed } from '../endpoints/agreement.ts';
import { head, readBlock } from './blocks.ts';
import type { EvmClient } from './client.ts';
import { ask } from './rpc.ts';
import type { RpcCall } from './rpc-driver.ts';

/** Source: EIP-3009. */
const abi = parseAbi([
  'event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)',
  'function authorizationState(address authorizer, bytes32 nonce) view returns (bool)',
]);
/** Nonces that one question names; nodes refuse filters that are much longer. */
const maxNonces = 200;
/** Blocks that one question covers; some public endpoints refuse more. */
const maxLogBlocks = 10;
/** How far back the time of an authorisation is looked for, in blocks. */
const maxSearchBlocks = 1 << 24;

/**
 * Which of these nonces were used in a range of blocks, as more than half of all configured endpoints show it.
 * @param toBlock a final one
 * @returns undefined when too few endpoints have these blocks, or disagree about the last one: a repeat may tell
 * @throws RpcUnavailable
 */
export async function authorizationEvents(
  client: EvmClient,
  {
    tokens,
    nonces,
    fromBlock,
    toBlock,
  }: { tokens: readonly string[]; nonces: readonly string[]; fromBlock: number; toBlock: number },
): Promise<AuthorizationUse[] | undefined> {
  const filters: RpcCall[] = [];
  for (let start = 0; start < nonces.length; start += maxNonces)
    for (let from = fromBlock; from <= toBlock; from += maxLogBlocks)
      filters.push({
        method: 'eth_getLogs',
        params: [
          {
            address: tokens,
            topics: usedTopics({ nonce: nonces.slice(start, start + maxNonces) as Hex[] }),
            fromBlock: numberToHex(from),
            toBlock: numberToHex(Math.min(from + maxLogBlocks - 1, toBlock)),
          },
        ],
      });
  const heard = await hearAll(client.endpoints, [blockCall(toBlock), ...filters]);
  // One that has not reached the last block, or that leaves a question open, cannot tell that there is nothing.
  const told = heard.filter(({ answers: [, ...logs] }) => logs.every((each) => Array.isArray(each)));
  const block = mostNamed(told, ({ answers }) => readBlock(answers[0])?.hash ?? '');
  const hash = block && readBlock(block.vote.answers[0])?.hash;
  if (!hash || block.count <= client.endpoints.size / 2) return undefined;
  const witnesses = told.filter(({ answers }) => readBlock(answers[0])?.hash === hash);
  const seen = witnesses.map(({ answers: [, ...logs] }) => uniqueUses(logs.flat() as RpcLog[]));
  return agreedUses(seen, { quorum: client.endpoints.size / 2 });
}

/**
 * What the newest final block says about an authorisation, as more than half of all configured endpoints show it.
 * @throws RpcUnavailable
 */
export async function authorizationStanding(
  client: EvmClient,
  { slot, confirmations }: { slot: AuthorizationSlot; confirmations: number },
): Promise<AuthorizationStanding> {
  const final = (await head(client)).number - confirmations + 1;
  if (final < 0) return { outcome: 'undecided' };
  const data = encodeFunctionData({
    abi,
    functionName: 'authorizationState',
    args: [slot.authorizer as Address, slot.nonce as Hex],
  });
  const state = { method: 'eth_call', params: [{ to: slot.token, data }, numberToHex(final)] };
  const heard = await hearAll(client.endpoints, [blockCall(final), state]);
  const most = mostNamed(heard.flatMap(readState), ({ hash, time, isUsed }) => `${hash} ${time} ${isUsed}`);
  if (!most || most.count <= client.endpoints.size / 2) return { outcome: 'undecided' };
  if (!most.vote.isUsed) return { outcome: 'unused', isOver: most.vote.time > slot.validBefore };
  const use = await findUse(client, { slot, final });
  return use ? { outcome: 'used', ...use } : { outcome: 'undecided' };
}

/** What one endpoint says of block and nonce; nothing where it lacks one of them. */
function readState({ answers: [said, state] }: Heard): { hash: string; time: number; isUsed: boolean }[] {
  const block = readBlock(said);
  if (!block || typeof state !== 'string' || !/^0x0{63}[01]$/.test(state)) return [];
  return [{ hash: block.hash, time: timeOf(said as RpcBlock), isUsed: state.endsWith('1') }];
}

/**
 * The transaction by which it was used: it stands in a block later than `validAfter` and earlier than `validBefore`.
 * Where those lie one endpoint may tell, for a wrong answer makes nothing be found.
 */
async function findUse(
  client: EvmClient,
  { slot, final }: { slot: AuthorizationSlot; final: number },
): Promise<AuthorizationUse | undefined> {
  const fromBlock = await firstBlockAfter(client, { time: slot.validAfter, newest: final });
  const toBlock = await firstBlockAfter(client, { time: slot.validBefore, newest: final });
  const { token, authorizer, nonce } = slot;
  const uses = await authorizationEvents(client, { tokens: [token], nonces: [nonce], fromBlock, toBlock });
  return uses?.find((each) => isSame(each.authorizer, authorizer));
}

/** Number of the first block later than an instant, or the newest: back in doubling steps, then by halves. */
async function firstBlockAfter(client: EvmClient, { time, newest }: { time: number; newest: number }): Promise<number> {
  const isAfter = async (number: number) => {
    const block = await ask(client.request({ method: 'eth_getBlockByNumber', params: [numberToHex(number), false] }));
    return block !== null && timeOf(block) > time;
  };
  let after = newest;
  let before = -1;
  for (let step = 1; step <= maxSearchBlocks && newest - step >= 0; step *= 2) {
    if (!(await isAfter(newest - step))) {
      before = newest - step;
      break;
    }
    after = newest - step;
  }
  while (after - before > 1) {
    const middle = Math.floor((after + before) / 2);
    if (await isAfter(middle)) after = middle;
    else before = middle;
  }
  return after;
}

const blockCall = (number: number): RpcCall => ({
  method: 'eth_getBlockByNumber',
  params: [numberToHex(number), false],
});

const timeOf = (block: Pick<RpcBlock, 'timestamp'>) => Number(block.timestamp);

const usedTopics = (args: { nonce: Hex | Hex[] }) => encodeEventTopics({ abi, eventName: 'AuthorizationUsed', args });

function agreedUses(
  seen: readonly (readonly AuthorizationUse[])[],
  { quorum }: { quorum: number },
): AuthorizationUse[] {
  const votes = seen.flat();
  const nonces = [...new Set(votes.map(slotKey))];
  return nonces.flatMap((key) => {
    const most = mostNamed(
      votes.filter((each) => slotKey(each) === key),
      (each) => `${each.txHash} ${each.blockNumber} ${each.blockHash}`,
    );
    return most && most.count > quorum ? [most.vote] : [];
  });
}

/** An endpoint that says the same thing twice has one vote. */
function uniqueUses(logs: readonly RpcLog[]): AuthorizationUse[] {
  return [...new Map(logs.flatMap(readUse).map((each) => [slotKey(each), each])).values()];
}

const slotKey = ({ token, authorizer, nonce }: Pick<AuthorizationUse, 'token' | 'authorizer' | 'nonce'>) =>
  `${token} ${authorizer} ${nonce}`.toLowerCase();

function readUse(log: RpcLog): AuthorizationUse[] {
  const { address, transactionHash, blockNumber, blockHash, removed } = log;
  if (removed || !transactionHash || !blockNumber || !blockHash) return [];
  try {
    const { args } = decodeEventLog({ abi, topics: log.topics, data: log.data });
    const { authorizer, nonce } = args;
    return [
      { token: address, authorizer, nonce, txHash: transactionHash, blockNumber: Number(blockNumber), blockHash },
    ];
  } catch {
    return [];
  }
}

function isSame(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}
