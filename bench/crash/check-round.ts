import { type Address, encodeFunctionData, erc20Abi, formatUnits, hexToBigInt, parseUnits, sliceHex } from 'viem';
import type { CrashAgent } from './agents.ts';
import type { Mined } from './chain.ts';
import { type Asked, storedId } from './load.ts';
import { type TokenSymbol, tokens } from './plan.ts';
import type { StoredPayment } from './stored.ts';

/** A round when nothing of it is pending any more: what was asked, what the service says, what the chain has. */
export interface RoundOutcome {
  readonly agents: readonly CrashAgent[];
  readonly asked: readonly Asked[];
  /** All rows of the round's agents. */
  readonly stored: readonly StoredPayment[];
  /** By the agent's id. */
  readonly mined: ReadonlyMap<string, readonly Mined[]>;
  readonly counts: ReadonlyMap<string, number>;
  readonly after: ReadonlyMap<string, { readonly wei: bigint; readonly minorUnits: bigint }>;
  readonly usdcAddress: Address;
}

/** Codes of a failed payment of which something may be on the chain: a fee, and nothing else. */
const feeOnly = new Set([
  'reverted',
  'cancelled',
  'dropped',
  'replaced',
  'signing_failed',
  'agent_inactive',
  'policy_violation',
]);

/** Everything about a round that must not be, a sentence each; none when all is well. */
export function checkRound(outcome: RoundOutcome): string[] {
  return [
    ...outcome.asked.flatMap((asked) => checkAnswers(asked, outcome.stored)),
    ...checkRows(outcome),
    ...outcome.agents.flatMap((agent) => [
      ...checkNonces(agent, outcome),
      ...checkTransfers(agent, outcome),
      ...checkBalances(agent, outcome),
      ...checkLimits(agent, outcome),
    ]),
  ];
}

/** No accepted POST is lost, none is stored twice, and every answer to it tells the same. */
function checkAnswers({ memo, planned, answers }: Asked, stored: readonly StoredPayment[]): string[] {
  const rows = stored.filter((row) => row.memo === memo);
  const problems: string[] = [];
  const name = `payment "${memo}"`;
  if (rows.length > 1) problems.push(`${name} is stored ${rows.length} times: ${rows.map(({ id }) => id).join(', ')}.`);
  if (rows.length === 0 && planned.client !== 'once')
    problems.push(`${name} was asked for until it was answered, and is not stored.`);
  const settled = answers.filter(({ status, body }) => status < 500 && body.code !== 'idempotency_key_in_progress');
  for (const answer of settled) {
    const id = storedId(answer);
    if (id === undefined) problems.push(`${name} was refused: ${answer.status} ${JSON.stringify(answer.body)}.`);
    else if (!rows.some((row) => row.id === id)) problems.push(`${name} was answered as ${id}, which is not stored.`);
  }
  // The first answer is given even where the database cannot keep it; a repeat then finds it made anew from the row. But
  // from there on it is the same for good.
  const replays = new Set(settled.filter(({ replayed }) => replayed).map(({ body }) => JSON.stringify(body)));
  if (replays.size > 1) problems.push(`${name} had different answers for one key: ${[...replays].join(' / ')}.`);
  const ids = new Set(settled.map(storedId));
  if (ids.size > 1) problems.push(`${name} had different ids for one key: ${[...ids].join(', ')}.`);
  if (settled.filter(({ replayed }) => !replayed).length > 1)
    problems.push(`${name} had more than one answer that was no replay.`);
  return problems;
}

function checkRows({ asked, stored }: RoundOutcome): string[] {
  const memos = new Set(asked.map(({ memo }) => memo));
  return stored.flatMap((row) => {
    const problems: string[] = [];
    if (!memos.has(row.memo ?? '')) problems.push(`${row.id} was asked for by nobody.`);
    if (row.status === 'failed' && !row.failure_code) problems.push(`${row.id} failed without a reason.`);
    return problems;
  });
}

/** Nonces 0 … n−1, each once; the chain counts as many. */
function checkNonces({ id, address }: CrashAgent, { mined, counts }: RoundOutcome): string[] {
  const nonces = mined.get(id)!.map(({ nonce }) => nonce);
  const problems: string[] = [];
  if (nonces.some((nonce, index) => nonce !== index))
    problems.push(`Wallet ${address} used the nonces ${nonces.join(', ')}.`);
  if (counts.get(id) !== nonces.length)
    problems.push(`The chain counts ${counts.get(id)} transactions of ${address}; ${nonces.length} are final.`);
  return problems;
}

/** Each confirmed payment is on the chain once, each failed one is not, and nothing else is but what does nothing. */
function checkTransfers(agent: CrashAgent, { stored, mined, usdcAddress }: RoundOutcome): string[] {
  const problems: string[] = [];
  const left = [...mined.get(agent.id)!];
  // A nonce that a failed payment has given back is another one's: those that were paid are looked up first.
  const rows = stored
    .filter((row) => row.agent_id === agent.id)
    .toSorted((a, b) => Number(a.status === 'failed') - Number(b.status === 'failed'));
  for (const row of rows) {
    if (row.status === 'pending') problems.push(`${row.id} is still pending (${row.status_detail}).`);
    const index = left.findIndex(
      (each) => each.nonce === row.nonce && (row.status === 'failed' || each.hash === row.hash),
    );
    const found = left[index];
    if (found) left.splice(index, 1);
    if (row.status === 'confirmed') problems.push(...checkConfirmed(row, found, usdcAddress));
    if (row.status === 'failed') problems.push(...checkFailed(row, found, { agent, usdcAddress }));
  }
  for (const { hash, nonce, to, valueWei, data } of left)
    problems.push(`${hash} (nonce ${nonce}) is on the chain for no payment: ${valueWei} wei to ${to}, ${data}.`);
  return problems;
}

function checkConfirmed(row: StoredPayment, found: Mined | undefined, usdcAddress: Address): string[] {
  if (!found)
    return [`${row.id} is confirmed, and its transaction ${row.hash} (nonce ${row.nonce}) is not on the chain.`];
  const problems: string[] = [];
  if (!found.succeeded) problems.push(`${row.id} is confirmed, and the chain reverted ${found.hash}.`);
  if (!pays(found, row, usdcAddress)) problems.push(`${row.id} is confirmed, and ${found.hash} pays something else.`);
  if (row.fee !== null && parseUnits(row.fee, 18) !== found.feeWei)
    problems.push(`${row.id} has a fee of ${row.fee}; the chain took ${formatUnits(found.feeWei, 18)}.`);
  return problems;
}

function checkFailed(
  row: StoredPayment,
  found: Mined | undefined,
  { agent, usdcAddress }: { agent: CrashAgent; usdcAddress: Address },
): string[] {
  if (!found) return [];
  if (!feeOnly.has(row.failure_code!))
    return [`${row.id} failed (${row.failure_code}), and ${found.hash} is at its nonce.`];
  const isNothing = found.valueWei === 0n && found.data === '0x' && found.to === agent.address.toLowerCase();
  if (isNothing) return [];
  if (!found.succeeded && pays(found, row, usdcAddress)) return [];
  return [`${row.id} failed (${row.failure_code}), and ${found.hash} moved something.`];
}

/** Whether a transaction does what a payment is for. */
function pays({ to, valueWei, data }: Mined, row: StoredPayment, usdcAddress: Address): boolean {
  const amount = minorOf(row);
  if (row.token === 'ETH') return to === row.to_address.toLowerCase() && valueWei === amount && data === '0x';
  const args = [row.to_address, amount] as const;
  const wanted = encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args });
  return to === usdcAddress.toLowerCase() && valueWei === 0n && data.toLowerCase() === wanted.toLowerCase();
}

const minorOf = ({ amount, token }: { amount: string; token: TokenSymbol }) =>
  parseUnits(amount, tokens[token].decimals);

/** Before, less what was paid and its fees, and what the round's other agents paid to it: to the wei. */
function checkBalances({ id, address, before }: CrashAgent, { stored, mined, after }: RoundOutcome): string[] {
  const confirmed = stored.filter(({ status }) => status === 'confirmed');
  const fees = mined.get(id)!.reduce((sum, { feeWei }) => sum + feeWei, 0n);
  const change = (token: TokenSymbol) =>
    confirmed
      .filter((row) => row.token === token)
      .reduce((sum, row) => {
        const received = row.to_address.toLowerCase() === address.toLowerCase() ? minorOf(row) : 0n;
        return sum + received - (row.agent_id === id ? minorOf(row) : 0n);
      }, 0n);
  const expected = { wei: before.wei + change('ETH') - fees, minorUnits: before.minorUnits + change('USDC') };
  const seen = after.get(id)!;
  return [
    ...(seen.wei === expected.wei ? [] : [`Wallet ${address} has ${seen.wei} wei and should have ${expected.wei}.`]),
    ...(seen.minorUnits === expected.minorUnits
      ? []
      : [`Wallet ${address} has ${seen.minorUnits} minor units of USDC and should have ${expected.minorUnits}.`]),
  ];
}

/** What a transaction moved, as the chain executed it. */
function transferOf(
  { to, valueWei, data, succeeded }: Mined,
  usdcAddress: Address,
): { token: TokenSymbol; amount: bigint } {
  if (!succeeded) return { token: 'ETH', amount: 0n };
  if (to !== usdcAddress.toLowerCase()) return { token: 'ETH', amount: valueWei };
  return { token: 'USDC', amount: hexToBigInt(sliceHex(data, 36, 68)) };
}

/** No limit was passed, and none denied what it had room for. */
function checkLimits({ id, policies }: CrashAgent, { stored, mined, usdcAddress }: RoundOutcome): string[] {
  const problems: string[] = [];
  const rows = stored.filter((row) => row.agent_id === id);
  const denied = rows.filter((row) => row.failure_code === 'policy_violation');
  const transfers = mined
    .get(id)!
    .map((each) => transferOf(each, usdcAddress))
    .filter(({ amount }) => amount > 0n);
  const sum = (wanted: TokenSymbol) =>
    transfers.filter(({ token }) => token === wanted).reduce((total, { amount }) => total + amount, 0n);
  const limits = policies.map((policy) => {
    if (policy.type === 'velocity_control') {
      const { max_count } = policy.rules;
      if (transfers.length > max_count)
        problems.push(`Agent ${id} made ${transfers.length} payments of ${max_count} at most.`);
      return { isReachedBy: () => transfers.length + 1 > max_count };
    }
    const { token, daily_limit } = policy.rules;
    const limit = parseUnits(daily_limit, tokens[token].decimals);
    if (sum(token) > limit)
      problems.push(`Agent ${id} sent ${sum(token)} minor units of ${token}; its limit is ${limit}.`);
    return { isReachedBy: (row: StoredPayment) => row.token === token && sum(token) + minorOf(row) > limit };
  });
  // Room that a payment had taken and gave back when it failed for another reason may have been missed by a third one.
  if (rows.some((row) => row.status === 'failed' && row.failure_code !== 'policy_violation')) return problems;
  for (const row of denied)
    if (!limits.some((limit) => limit.isReachedBy(row)))
      problems.push(`${row.id} was denied (${row.failure_message}), and all its limits had room for it.`);
  return problems;
}
