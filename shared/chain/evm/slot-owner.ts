import {
  type Address,
  formatTransaction,
  type Hex,
  keccak256,
  numberToHex,
  parseTransaction,
  type RpcTransaction,
  recoverTransactionAddress,
  serializeTransaction,
  type TransactionSerialized,
} from 'viem';
import type { SlotOwner } from '../adapter.ts';
import { hearAll, mostNamed } from '../endpoints/agreement.ts';
import { RpcUnavailable } from '../errors.ts';
import { agreedInclusions } from './agreed-inclusions.ts';
import { head } from './blocks.ts';
import type { EvmClient } from './client.ts';
import { kindOfAnswer } from './node-errors.ts';
import { ask } from './rpc.ts';

/** How far back the owner is looked for, in blocks: older state is rarely kept by a node. */
const maxSearchBlocks = 1 << 17;

/**
 * What was mined at the nonce of `raw`, once that is `confirmations` deep and most endpoints say so. The chain has no
 * index from nonce to transaction, so the block is found by bisection over the sender's transaction count.
 * @throws RpcUnavailable
 */
export async function slotOwner(
  client: EvmClient,
  { raw, confirmations }: { raw: string; confirmations: number },
): Promise<SlotOwner | undefined> {
  const serialized = raw as TransactionSerialized<'eip1559'>;
  const ours = parseTransaction(serialized);
  const sender = await recoverTransactionAddress({ serializedTransaction: serialized });
  const nonce = ours.nonce ?? 0;
  const safe = (await head(client)).number - confirmations + 1;
  const block = await blockOfNonce(client, { sender, nonce, newest: safe });
  if (block === undefined) return undefined;
  const found = await ask(client.request({ method: 'eth_getBlockByNumber', params: [numberToHex(block), true] }));
  const claimed = (found?.transactions as RpcTransaction[] | undefined)?.find(
    (each) => same(each.from, sender) && Number(each.nonce) === nonce,
  );
  const mined = claimed && (await agreedTransaction(client, { hash: claimed.hash }));
  if (!mined || !same(mined.from, sender) || Number(mined.nonce) !== nonce) return undefined;
  const [agreed] = await agreedInclusions(client, { placed: [{ hash: mined.hash, blockNumber: block }] });
  if (agreed?.outcome !== 'included' || agreed.inclusion.blockNumber !== block) return undefined;
  const samePayment =
    same(mined.to, ours.to) && BigInt(mined.value) === (ours.value ?? 0n) && same(mined.input, ours.data ?? '0x');
  return { inclusion: agreed.inclusion, samePayment, raw: serializedAs(mined) ?? raw };
}

/** What more than half of all configured endpoints hold under a hash: one alone could make up who sent what. */
async function agreedTransaction(client: EvmClient, { hash }: { hash: Hex }): Promise<RpcTransaction | undefined> {
  const heard = await hearAll(client.endpoints, [{ method: 'eth_getTransactionByHash', params: [hash] }]);
  const found = heard.flatMap(({ answers }) => (answers[0] ? [answers[0] as RpcTransaction] : []));
  const most = mostNamed(found, (each) =>
    [each.hash, each.from, each.nonce, each.to, each.value, each.input].join(' ').toLowerCase(),
  );
  return most && most.count > client.endpoints.size / 2 ? most.vote : undefined;
}

function same(a: string | null | undefined, b: string | null | undefined): boolean {
  return (a ?? '').toLowerCase() === (b ?? '').toLowerCase();
}

/** The block in which the sender's count passed the nonce: back in doubling steps, then by halves. */
async function blockOfNonce(
  client: EvmClient,
  { sender, nonce, newest }: { sender: Address; nonce: number; newest: number },
): Promise<number | undefined> {
  const isUsedAt = async (number: number) => {
    const params: [Address, Hex] = [sender, numberToHex(number)];
    try {
      return Number(await ask(client.request({ method: 'eth_getTransactionCount', params }))) > nonce;
    } catch (error) {
      // A state that the node has forgotten counts as not used: at worst, the block found does not hold the owner.
      if (error instanceof RpcUnavailable && error.answer && kindOfAnswer(error.answer) !== 'limited') return false;
      throw error;
    }
  };
  if (newest < 0 || !(await isUsedAt(newest))) return undefined;
  let used = newest;
  let free = -1;
  for (let step = 1; step <= maxSearchBlocks && newest - step >= 0; step *= 2) {
    if (!(await isUsedAt(newest - step))) {
      free = newest - step;
      break;
    }
    used = newest - step;
  }
  if (free < 0 && newest > maxSearchBlocks) return undefined;
  while (used - free > 1) {
    const middle = Math.floor((used + free) / 2);
    if (await isUsedAt(middle)) used = middle;
    else free = middle;
  }
  return used;
}

/** The signed bytes of a mined transaction, if they can be rebuilt to the very same hash. */
function serializedAs(mined: RpcTransaction): Hex | undefined {
  const { r, s, yParity, v, ...fields } = formatTransaction(mined);
  if (fields.type !== 'eip1559' || fields.chainId === undefined) return undefined;
  const raw = serializeTransaction(
    {
      type: 'eip1559',
      chainId: fields.chainId,
      nonce: fields.nonce,
      to: fields.to,
      value: fields.value,
      data: fields.input,
      gas: fields.gas,
      maxFeePerGas: fields.maxFeePerGas,
      maxPriorityFeePerGas: fields.maxPriorityFeePerGas,
      accessList: fields.accessList,
    },
    { r, s, yParity: yParity ?? Number(v) },
  );
  return keccak256(raw) === mined.hash ? raw : undefined;
}
