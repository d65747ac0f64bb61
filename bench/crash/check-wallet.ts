import { type Address, formatUnits, parseUnits } from 'viem';
import type { CrashAgent } from './agents.ts';
import type { Mined } from './chain.ts';
import { minorOf, pays, type RoundOutcome } from './outcome.ts';
import type { TokenSymbol } from './plan.ts';
import type { StoredPayment } from './stored.ts';

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

/** Holds one wallet of a round against the chain: nonces, transactions, balances. @returns what is wrong, a sentence each */
export function checkWallet(agent: CrashAgent, outcome: RoundOutcome): string[] {
  return [...checkNonces(agent, outcome), ...checkTransfers(agent, outcome), ...checkBalances(agent, outcome)];
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
