import type { Inclusion } from '../adapter.ts';
import { tronAddressBytes } from './address.ts';
import { isHash, list, object, readBlock, wholeOrZero } from './answers.ts';
import { readRawData } from './read-signed.ts';
import { addressWord } from './transfer-data.ts';

/** First topic of the event that every transfer of a token leaves: keccak256("Transfer(address,address,uint256)"). */
const transferTopic = 'ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';

const hexOf20 = /^[0-9a-f]{40}$/;

/**
 * What became of a transfer.
 * @param info its receipt, with addresses in hex
 * @param block the block that this names
 * @returns undefined where they do not belong together or cannot be read
 */
export function readInclusion({ info, block }: { info: unknown; block: unknown }): Inclusion | undefined {
  const { id, fee, blockNumber, result, receipt, log } = object(info);
  const found = readBlock(block);
  const feeSun = wholeOrZero(fee);
  if (!isHash(id) || feeSun === undefined || !found || found.number !== blockNumber) return undefined;
  const held = list(object(block).transactions).map(object);
  const raw = held.find(({ txID }) => txID === id)?.raw_data_hex;
  const transfer = typeof raw === 'string' ? readRawData(raw) : undefined;
  if (transfer?.hash !== id) return undefined;
  // A call always says how it ended; a plain transfer cannot fail once it is in a block, and says nothing.
  const ended = object(receipt).result;
  const isPlain = transfer.asset === 'native';
  const isDone = (ended === 'SUCCESS' || (ended === undefined && isPlain)) && result !== 'FAILED';
  const succeeded = isDone && !isPlain ? hasMoved(log, transfer) : isDone;
  if (succeeded === undefined) return undefined;
  return {
    hash: id,
    blockNumber: found.number,
    blockHash: found.hash,
    succeeded,
    feeMinor: BigInt(feeSun),
  };
}

/**
 * Whether a call that went well has moved tokens, by the event of it. What `transfer` returns does not tell: some
 * contracts return false when all went well, others when they did nothing. A full node keeps the events of a call in one
 * record with how it ended (java-tron, `TransactionUtil.buildTransactionInfoInstance`). The amount is not compared: of a
 * token that takes its fee out of it less arrives, and a payment that has moved anything must not be paid again.
 * @returns undefined where an event cannot be read
 */
function hasMoved(log: unknown, { asset, from, to }: { asset: string; from: string; to: string }): boolean | undefined {
  const events = list(log).map(object);
  if (!events.every(({ address }) => typeof address === 'string' && hexOf20.test(address))) return undefined;
  const contract = Buffer.from(tronAddressBytes(asset).subarray(1)).toString('hex');
  const topics = [transferTopic, addressWord(from), addressWord(to)].join();
  return events.some((event) => event.address === contract && list(event.topics).join() === topics);
}
