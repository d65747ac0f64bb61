import { type LedgerTransaction, scriptOf, sumOf } from '../../test/support/bitcoin-ledger.ts';
import type { BitcoinAgent } from './bitcoin-agents.ts';
import type { BitcoinOutcome } from './bitcoin-outcome.ts';
import { checkAsked } from './check-asked.ts';
import { formatSat, parseSat } from './sat.ts';
import type { StoredPayment } from './stored.ts';

/** Everything about a round on Bitcoin that must not be, a sentence each; none when all is well. */
export function checkBitcoin(outcome: BitcoinOutcome): string[] {
  return [
    ...checkAsked(outcome),
    ...outcome.agents.flatMap((agent) => [
      ...checkTransfers(agent, outcome),
      ...checkBalance(agent, outcome),
      ...checkLimit(agent, outcome),
    ]),
    ...checkTaken(outcome),
  ];
}

/** Each confirmed payment is on the chain once, each failed one is not, and nothing else has left the wallet. */
function checkTransfers(agent: BitcoinAgent, { stored, wallets }: BitcoinOutcome): string[] {
  const problems: string[] = [];
  const { sent } = wallets.get(agent.id)!;
  const rows = stored.filter((row) => row.agent_id === agent.id);
  for (const row of rows) {
    const hashes = row.attempts.map(({ hash }) => hash);
    const mined = sent.filter(({ txid }) => hashes.includes(txid));
    if (row.status === 'pending') problems.push(`${row.id} is still pending (${row.status_detail}).`);
    if (mined.length > 1)
      problems.push(`${row.id} is on the chain ${mined.length} times: ${mined.map(({ txid }) => txid).join(', ')}.`);
    if (row.status === 'confirmed') problems.push(...checkConfirmed(row, mined[0]));
    if (row.status === 'failed') problems.push(...checkFailed(row, mined[0]));
  }
  const ours = new Set(rows.flatMap(({ attempts }) => attempts.map(({ hash }) => hash)));
  for (const { txid } of sent)
    if (!ours.has(txid)) problems.push(`${txid} spends coins of ${agent.address} for no payment.`);
  return problems;
}

function checkConfirmed(row: StoredPayment, mined: LedgerTransaction | undefined): string[] {
  if (mined?.txid !== row.hash) return [`${row.id} is confirmed, and its transaction ${row.hash} is not on the chain.`];
  const problems: string[] = [];
  const [paid, ...others] = mined.outputs.map(({ script, valueSat }) => `${valueSat} to ${script}`);
  const wanted = `${parseSat(row.amount)} to ${scriptOf(row.to_address)}`;
  if (paid !== wanted) problems.push(`${row.id} is confirmed, and ${mined.txid} pays ${paid}, not ${wanted}.`);
  const own = mined.inputs[0]!.script;
  if (others.length > 1 || mined.outputs.slice(1).some(({ script }) => script !== own))
    problems.push(`${mined.txid} of ${row.id} pays more than ${row.to_address}: ${others.join(', ')}.`);
  return [...problems, ...checkFee(row, mined)];
}

/** What was cancelled, or could not be made, may have given its coins back to the wallet, and nothing to anybody. */
function checkFailed(row: StoredPayment, mined: LedgerTransaction | undefined): string[] {
  if (!mined) return [];
  const own = mined.inputs[0]!.script;
  if (mined.outputs.some(({ script }) => script !== own))
    return [`${row.id} failed (${row.failure_code}), and ${mined.txid} paid somebody.`];
  return checkFee(row, mined);
}

function checkFee(row: StoredPayment, { feeSat }: LedgerTransaction): string[] {
  if (row.fee === null || parseSat(row.fee) === feeSat) return [];
  return [`${row.id} has a fee of ${row.fee}; the chain took ${formatSat(feeSat)}.`];
}

/** Before, less what was paid and its fees, and what the round's other agents paid to it: to the satoshi. */
function checkBalance({ id, address, beforeSat }: BitcoinAgent, { stored, wallets }: BitcoinOutcome): string[] {
  const { sent, coins } = wallets.get(id)!;
  const confirmed = stored.filter(({ status }) => status === 'confirmed');
  const received = confirmed.filter((row) => row.to_address === address);
  const paid = confirmed.filter((row) => row.agent_id === id);
  const sum = (rows: readonly StoredPayment[]) => rows.reduce((total, row) => total + parseSat(row.amount), 0n);
  const fees = sent.reduce((total, { feeSat }) => total + feeSat, 0n);
  const expected = beforeSat + sum(received) - sum(paid) - fees;
  const seen = sumOf(coins);
  return seen === expected ? [] : [`Wallet ${address} has ${seen} satoshis and should have ${expected}.`];
}

function checkLimit({ id, limitSat }: BitcoinAgent, { stored }: BitcoinOutcome): string[] {
  const rows = stored.filter((row) => row.agent_id === id);
  const sum = rows
    .filter(({ status }) => status === 'confirmed')
    .reduce((total, row) => total + parseSat(row.amount), 0n);
  const denied = rows.filter(({ failure_code }) => failure_code === 'policy_violation');
  if (limitSat === null) return denied.map((row) => `${row.id} was denied, and its agent has no limit.`);
  return sum <= BigInt(limitSat) ? [] : [`Agent ${id} sent ${sum} satoshis; its limit is ${limitSat}.`];
}

/** A coin that was spent is noted for the payment that spent it, and no coin is kept from others by one that has ended. */
function checkTaken({ stored, wallets, taken }: BitcoinOutcome): string[] {
  const problems: string[] = [];
  const payerOf = new Map(taken.map(({ txid, vout, transaction_id }) => [`${txid}:${vout}`, transaction_id]));
  for (const { sent, coins } of wallets.values()) {
    for (const { txid, inputs } of sent) {
      const id = stored.find(({ attempts }) => attempts.some(({ hash }) => hash === txid))?.id;
      for (const coin of inputs)
        if (payerOf.get(`${coin.txid}:${coin.vout}`) !== id)
          problems.push(
            `${txid} of ${id} spends ${coin.txid}:${coin.vout}, which is noted for another payment or none.`,
          );
    }
    for (const { txid, vout } of coins) {
      const id = payerOf.get(`${txid}:${vout}`);
      if (id !== undefined)
        problems.push(`${txid}:${vout} is unspent, and ${id}, which has ended, keeps it from others.`);
    }
  }
  return problems;
}
