import type { Block } from '../adapter.ts';

/** A block with the time of its header, which is what transactions expire by. */
export interface TronBlock extends Block {
  /** Unix milliseconds. */
  readonly timestampMs: number;
}

/** What of an account matters for paying. An account that was never paid does not exist. */
export interface TronAccount {
  readonly isActive: boolean;
  readonly isContract: boolean;
  readonly balanceSun: bigint;
}

/** What the chain's parameters say about fees, in sun. */
export interface TronPrices {
  readonly sunPerByte: bigint;
  readonly sunPerEnergy: bigint;
  /** For making the recipient's account: to the chain, and in place of the bytes' bandwidth. */
  readonly newAccountSun: bigint;
}

type Json = Readonly<Record<string, unknown>>;

const hexOf32 = /^[0-9a-f]{64}$/;

/** @param answer a block with its transactions @returns undefined where there is none */
export function readBlock(answer: unknown): TronBlock | undefined {
  const { blockID, block_header, transactions } = object(answer);
  const raw = object(object(block_header).raw_data);
  const [number, timestampMs] = [wholeOrZero(raw.number), wholeOrZero(raw.timestamp)];
  if (number === undefined || timestampMs === undefined) return undefined;
  // An id begins with its number. Source: java-tron, `BlockCapsule.BlockId`.
  if (!isHash(blockID) || Number.parseInt(blockID.slice(0, 16), 16) !== number) return undefined;
  if (!isHash(raw.parentHash)) return undefined;
  const transactionHashes = list(transactions).flatMap((each) => {
    const { txID } = object(each);
    return typeof txID === 'string' ? [txID] : [];
  });
  return { number, hash: blockID, parentHash: raw.parentHash, transactionHashes, timestampMs };
}

/** In which block a transaction is, by its receipt. @param answer to `gettransactioninfobyid` */
export function readPlace(answer: unknown): { number: number } | undefined {
  const { blockNumber } = object(answer);
  const number = whole(blockNumber);
  return number === undefined ? undefined : { number };
}

/** @param answer to `getaccount`; `null` where there is no such account */
export function readAccount(answer: unknown): TronAccount | undefined {
  if (answer === null) return { isActive: false, isContract: false, balanceSun: 0n };
  const { address, balance, type } = object(answer);
  const balanceSun = wholeOrZero(balance);
  if (typeof address !== 'string' || balanceSun === undefined) return undefined;
  return { isActive: true, isContract: type === 'Contract', balanceSun: BigInt(balanceSun) };
}

/** @param answer to `getchainparameters`; parameters that are zero have no value */
export function readPrices(answer: unknown): TronPrices | undefined {
  const parameters = list(object(answer).chainParameter).map(object);
  const value = (key: string): bigint | undefined => {
    const found = parameters.find((each) => each.key === key);
    const number = found && wholeOrZero(found.value);
    return number === undefined ? undefined : BigInt(number);
  };
  const [sunPerByte, sunPerEnergy] = [value('getTransactionFee'), value('getEnergyFee')];
  const [toChain, forBytes] = [value('getCreateNewAccountFeeInSystemContract'), value('getCreateAccountFee')];
  if (sunPerByte === undefined || sunPerEnergy === undefined) return undefined;
  if (toChain === undefined || forBytes === undefined) return undefined;
  return { sunPerByte, sunPerEnergy, newAccountSun: toChain + forBytes };
}

/** What is of another type than expected reads as an empty object. */
export function object(value: unknown): Json {
  return typeof value === 'object' && value !== null ? (value as Json) : {};
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Numbers beyond 2^53 were rounded when they were parsed: they are none. */
function whole(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** A full node leaves out what is zero. */
export function wholeOrZero(value: unknown): number | undefined {
  return value === undefined ? 0 : whole(value);
}

export function isHash(value: unknown): value is string {
  return typeof value === 'string' && hexOf32.test(value);
}
