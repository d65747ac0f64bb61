import { addressBytes, addressOf, bytesOf, hexOf, type ReadTransaction, signerOf } from './tron-bytes.ts';

/**
 * What the double of a Tron node knows of money: balances, tokens, bandwidth and energy, and what a transaction does to
 * them. Source: java-tron, `Manager.processTransaction`, `BandwidthProcessor`, `TransferActuator`, `VMActuator`.
 */
export interface Account {
  readonly balanceSun: bigint;
  /** Bytes of free bandwidth used; they do not come back by themselves. */
  readonly freeNetUsed: bigint;
  /** Bandwidth and energy by stake, and how much of it is used. */
  readonly netLimit: bigint;
  readonly netUsed: bigint;
  readonly energyLimit: bigint;
  readonly energyUsed: bigint;
}

/** What calls of a token do. The default is that of USDT on Tron, whose `transfer` says false though it has paid. */
export interface TokenRules {
  readonly returns?: 'true' | 'false' | 'nothing';
  /** Transfers go well and do nothing. */
  readonly movesNothing?: boolean | undefined;
  /** Energy of a transfer to somebody who holds some, and to somebody who holds none. */
  readonly energy?: readonly [holder: bigint, newcomer: bigint];
  /** Transfers end like this in blocks, though calls that only ask go well. */
  readonly fails?: 'REVERT' | 'OUT_OF_ENERGY' | undefined;
  /** Calls that only ask revert. */
  readonly failsAsked?: boolean | undefined;
}

export interface State {
  readonly accounts: ReadonlyMap<string, Account>;
  /** What holders have, by the token's contract. */
  readonly tokens: ReadonlyMap<string, ReadonlyMap<string, bigint>>;
}

export interface Receipt {
  readonly feeSun: bigint;
  readonly netUsage: bigint;
  readonly netFeeSun: bigint;
  readonly energyUsage: bigint;
  readonly energyFeeSun: bigint;
  readonly energyTotal: bigint;
  /** Of a call; undefined for a transfer of TRX. */
  readonly result: 'SUCCESS' | 'REVERT' | 'OUT_OF_ENERGY' | undefined;
  readonly returned: string;
  readonly log: readonly { address: string; topics: readonly string[]; data: string }[];
}

/** A node's no, by the codes of `api.Return.response_code`. */
export class Refusal extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Prices as `getchainparameters` tells them. */
export interface Prices {
  readonly sunPerByte: bigint;
  readonly sunPerEnergy: bigint;
  readonly createAccountSun: bigint;
  readonly createAccountNetSun: bigint;
  readonly freeNet: bigint;
  readonly maxFeeLimitSun: bigint;
}

export const mainnetPrices: Prices = {
  sunPerByte: 1000n,
  sunPerEnergy: 100n,
  createAccountSun: 1_000_000n,
  createAccountNetSun: 100_000n,
  freeNet: 600n,
  maxFeeLimitSun: 15_000_000_000n,
};

/** Energy by mainnet's USDT, its penalty included. */
const usdtEnergy = [64_285n, 130_285n] as const;
/** Every transaction pays for a result of so many bytes. Source: java-tron, `Constant.MAX_RESULT_SIZE_IN_TX`. */
const resultBytes = 64n;
const transferTopic = 'ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';

export const emptyState: State = { accounts: new Map(), tokens: new Map() };

const newcomer: Account = {
  balanceSun: 0n,
  freeNetUsed: 0n,
  netLimit: 0n,
  netUsed: 0n,
  energyLimit: 0n,
  energyUsed: 0n,
};

export function setAccount(state: State, address: string, change: Partial<Account>): State {
  const account = { ...(state.accounts.get(address) ?? newcomer), ...change };
  return { ...state, accounts: new Map([...state.accounts, [address, account]]) };
}

export function setTokens(state: State, contract: string, holder: string, amount: bigint): State {
  const holders = new Map([...(state.tokens.get(contract) ?? []), [holder, amount] as const]);
  return { ...state, tokens: new Map([...state.tokens, [contract, holders]]) };
}

export const tokensOf = (state: State, contract: string, holder: string): bigint =>
  state.tokens.get(contract)?.get(holder) ?? 0n;

/** @throws Refusal SIGERROR */
export function checkSignature({ id, signatures, contract }: ReadTransaction): void {
  const [signature, ...more] = signatures;
  if (!signature || more.length > 0) throw new Refusal('SIGERROR', 'Validate signature error: miss sig or contract');
  const signer = signerOf(id, signature);
  if (signer !== contract.owner)
    throw new Refusal(
      'SIGERROR',
      `Validate signature error: ${hexOf(signature)} is signed by ${signer} but it is not contained of permission.`,
    );
}

/**
 * Carries a transaction out.
 * @throws Refusal when no block may hold it
 */
export function execute(
  state: State,
  transaction: ReadTransaction,
  { prices, rules }: { prices: Prices; rules: (contract: string) => TokenRules | undefined },
): { state: State; receipt: Receipt } {
  const { contract, feeLimitSun } = transaction;
  const payer = state.accounts.get(contract.owner);
  if (!payer)
    throw new Refusal(
      'CONTRACT_VALIDATE_ERROR',
      `Contract validate error : account [${contract.owner}] does not exist`,
    );
  const makesAccount = contract.type === 'TransferContract' && !state.accounts.has(contract.to);
  const net = payBandwidth(payer, { bytes: bytesBilled(transaction), makesAccount, prices });
  const billed = setAccount(state, contract.owner, net.account);
  if (contract.type === 'TransferContract') {
    const receipt = { ...blank, netUsage: net.usage, netFeeSun: net.feeSun };
    return transferTrx(billed, { ...contract, makesAccount, prices, receipt });
  }
  const token = rules(contract.contract);
  if (!token)
    throw new Refusal('CONTRACT_VALIDATE_ERROR', 'Contract validate error : No contract or not a smart contract');
  if (feeLimitSun < 0n || feeLimitSun > prices.maxFeeLimitSun)
    throw new Refusal('CONTRACT_VALIDATE_ERROR', 'Contract validate error : feeLimit must be >= 0 and <= the maximum');
  const call = callToken(billed, { ...contract, token, asked: false });
  const energy = payEnergy(billed.accounts.get(contract.owner)!, { needed: call.energy, feeLimitSun, prices });
  const result = energy.isEnough && token.fails !== 'OUT_OF_ENERGY' ? call.result : 'OUT_OF_ENERGY';
  return {
    state: setAccount(result === 'SUCCESS' ? call.state : billed, contract.owner, energy.account),
    receipt: {
      feeSun: net.feeSun + energy.feeSun,
      netUsage: net.usage,
      netFeeSun: net.feeSun,
      energyUsage: energy.usage,
      energyFeeSun: energy.feeSun,
      energyTotal: energy.total,
      result,
      returned: result === 'OUT_OF_ENERGY' ? '' : call.returned,
      log: result === 'SUCCESS' ? call.log : [],
    },
  };
}

const blank: Receipt = {
  feeSun: 0n,
  netUsage: 0n,
  netFeeSun: 0n,
  energyUsage: 0n,
  energyFeeSun: 0n,
  energyTotal: 0n,
  result: undefined,
  returned: '',
  log: [],
};

function transferTrx(
  state: State,
  p: { owner: string; to: string; amountSun: bigint; makesAccount: boolean; prices: Prices; receipt: Receipt },
): { state: State; receipt: Receipt } {
  const refuse = (why: string) => new Refusal('CONTRACT_VALIDATE_ERROR', `Contract validate error : ${why}`);
  if (p.to === p.owner) throw refuse('Cannot transfer TRX to yourself.');
  if (p.amountSun <= 0n) throw refuse('Amount must be greater than 0.');
  if (state.tokens.has(p.to)) throw refuse('Cannot transfer TRX to a smartContract.');
  const feeSun = p.makesAccount ? p.prices.createAccountSun : 0n;
  const payer = state.accounts.get(p.owner)!;
  if (payer.balanceSun < p.amountSun + feeSun)
    throw refuse('Validate TransferContract error, balance is not sufficient.');
  const paid = setAccount(state, p.owner, { balanceSun: payer.balanceSun - p.amountSun - feeSun });
  const before = paid.accounts.get(p.to)?.balanceSun ?? 0n;
  return {
    state: setAccount(paid, p.to, { balanceSun: before + p.amountSun }),
    receipt: { ...p.receipt, feeSun: p.receipt.netFeeSun + feeSun },
  };
}

/** What a transaction is billed for: its bytes without results, and a result of the largest size. */
function bytesBilled({ rawData, signatures }: ReadTransaction): bigint {
  const lengthOf = (bytes: number) => (bytes < 128 ? 1 : bytes < 16_384 ? 2 : 3);
  const framed = [rawData, ...signatures].map(({ length }) => 1 + lengthOf(length) + length);
  return BigInt(framed.reduce((sum, each) => sum + each, 0)) + resultBytes;
}

function payBandwidth(
  account: Account,
  { bytes, makesAccount, prices }: { bytes: bigint; makesAccount: boolean; prices: Prices },
): { account: Account; usage: bigint; feeSun: bigint } {
  if (bytes <= account.netLimit - account.netUsed)
    return { account: { ...account, netUsed: account.netUsed + bytes }, usage: bytes, feeSun: 0n };
  if (!makesAccount && bytes <= prices.freeNet - account.freeNetUsed)
    return { account: { ...account, freeNetUsed: account.freeNetUsed + bytes }, usage: bytes, feeSun: 0n };
  const feeSun = makesAccount ? prices.createAccountNetSun : bytes * prices.sunPerByte;
  if (account.balanceSun < feeSun) throw new Refusal('BANDWITH_ERROR', 'Account resource insufficient error.');
  return { account: { ...account, balanceSun: account.balanceSun - feeSun }, usage: 0n, feeSun };
}

/** The fee limit bounds all energy, that of a stake too. Source: java-tron, `getAccountEnergyLimitWithFixRatio`. */
function payEnergy(
  account: Account,
  { needed, feeLimitSun, prices }: { needed: bigint; feeLimitSun: bigint; prices: Prices },
): { account: Account; isEnough: boolean; usage: bigint; feeSun: bigint; total: bigint } {
  const staked = account.energyLimit - account.energyUsed;
  const least = (one: bigint, other: bigint) => (one < other ? one : other);
  const allowed = least(staked + account.balanceSun / prices.sunPerEnergy, feeLimitSun / prices.sunPerEnergy);
  const total = least(needed, allowed);
  const usage = least(total, staked);
  const feeSun = (total - usage) * prices.sunPerEnergy;
  return {
    account: { ...account, energyUsed: account.energyUsed + usage, balanceSun: account.balanceSun - feeSun },
    isEnough: needed <= allowed,
    ...{ usage, feeSun, total },
  };
}

export interface CallResult {
  readonly state: State;
  readonly result: 'SUCCESS' | 'REVERT';
  readonly energy: bigint;
  readonly returned: string;
  readonly log: Receipt['log'];
}

/** A call of a token. @param p.asked it only asks: nothing of it stays */
export function callToken(
  state: State,
  p: { owner: string; contract: string; data: string; token: TokenRules; asked: boolean },
): CallResult {
  const { owner, contract, data, token, asked } = p;
  const reverted: CallResult = { state, result: 'REVERT', energy: 2_000n, returned: '', log: [] };
  const returned = { true: word(1n), false: word(0n), nothing: '' }[token.returns ?? 'false'];
  const read = (value: bigint): CallResult => ({
    ...reverted,
    result: 'SUCCESS',
    energy: 4_062n,
    returned: word(value),
  });
  const [, address = '', amount = ''] = /^[0-9a-f]{8}[0-9a-f]{24}([0-9a-f]{40})([0-9a-f]{64})?$/.exec(data) ?? [];
  const who = address === '' ? '' : addressOf(bytesOf(`41${address}`));
  if (data.startsWith('70a08231') && who) return read(tokensOf(state, contract, who));
  if (!data.startsWith('a9059cbb') || !amount || (asked ? token.failsAsked : token.fails === 'REVERT')) return reverted;
  const value = BigInt(`0x${amount}`);
  const held = tokensOf(state, contract, owner);
  if (held < value) return reverted;
  const [energyToHolder, energyToNewcomer] = token.energy ?? usdtEnergy;
  const isHolder = tokensOf(state, contract, who) > 0n;
  if (token.movesNothing) return { ...reverted, result: 'SUCCESS', returned };
  const taken = setTokens(state, contract, owner, held - value);
  const log = {
    address: hexOf(addressBytes(contract).subarray(1)),
    topics: [transferTopic, ...[owner, who].map((each) => hexOf(addressBytes(each).subarray(1)).padStart(64, '0'))],
    data: word(value),
  };
  return {
    state: setTokens(taken, contract, who, tokensOf(taken, contract, who) + value),
    result: 'SUCCESS',
    energy: isHolder ? energyToHolder : energyToNewcomer,
    returned,
    log: [log],
  };
}

const word = (value: bigint): string => value.toString(16).padStart(64, '0');
