import { type AskedX402, ledgerId } from './x402-load.ts';
import type { StoredX402, X402Outcome } from './x402-outcome.ts';

/** What a client may be told that was not stored for it. */
const refusals = new Set(['budget_exceeded', 'session_expired', 'target_unreachable']);

/** Everything about a round's session that must not be, a sentence each; none when all is well. */
export function checkX402(outcome: X402Outcome): string[] {
  return [
    ...outcome.asked.flatMap((asked) => checkAnswers(asked, outcome)),
    ...outcome.stored.flatMap((row) => checkRow(row, outcome)),
    ...checkSums(outcome),
  ];
}

/** No accepted POST is lost, and a key has one payment and one header. */
function checkAnswers({ key, planned, answers }: AskedX402, { stored }: X402Outcome): string[] {
  const problems: string[] = [];
  const name = `x402 payment "${key}"`;
  const settled = answers.filter(({ status, body }) => status < 500 && body.code !== 'idempotency_key_in_progress');
  if (settled.length === 0 && planned.client !== 'once') problems.push(`${name} was never answered.`);
  for (const { status, body } of settled.filter((answer) => ledgerId(answer) === undefined))
    if (!refusals.has(body.code)) problems.push(`${name} was refused: ${status} ${JSON.stringify(body)}.`);
  const ids = new Set(settled.flatMap((answer) => ledgerId(answer) ?? []));
  if (ids.size > 1) problems.push(`${name} had different ids for one key: ${[...ids].join(', ')}.`);
  for (const id of ids) {
    const row = stored.find((each) => each.id === id);
    if (!row) problems.push(`${name} was answered as ${id}, which is not stored.`);
    const headers = new Set(settled.flatMap(({ body }) => (body.payment_signature as string | undefined) ?? []));
    if (headers.size > 1) problems.push(`${name} had ${headers.size} headers.`);
    for (const header of headers)
      if (row && header !== row.payment_signature) problems.push(`${name} had a header that is not stored.`);
  }
  return problems;
}

/** Settled is what the chain has seen used; what came to nothing it has not, and cannot any more. */
function checkRow(row: StoredX402, { used, chainTime }: X402Outcome): string[] {
  const problems: string[] = [];
  const { id, status, settlement, auth_nonce: nonce, valid_before: validBefore } = row;
  const hash = nonce === null ? undefined : used.get(nonce);
  if (status === 'pending' || settlement === 'unsettled') problems.push(`${id} is ${status}, ${settlement}.`);
  if (status === 'failed' && !row.failure_code) problems.push(`${id} failed without a reason.`);
  if (settlement === 'settled' && hash === undefined)
    problems.push(`${id} is settled by ${row.tx_hash}, and the chain has not seen it used.`);
  if (settlement === 'settled' && hash !== undefined && hash !== row.tx_hash)
    problems.push(`${id} is settled by ${row.tx_hash}; the chain has ${hash}.`);
  if (settlement !== 'settled' && hash !== undefined)
    problems.push(`${id} is ${status}, ${settlement}, and was used by ${hash}.`);
  if (settlement === 'expired' && validBefore! >= chainTime)
    problems.push(`${id} is expired, and the chain would still take it: it is ${chainTime} there, not ${validBefore}.`);
  if (settlement === 'expired' && row.changed_at <= validBefore!)
    problems.push(`${id} was given back at ${row.changed_at}, before ${validBefore}.`);
  return problems;
}

/** The budget lacks what was authorised and has not expired; the wallet what the chain has moved; nothing else is there. */
function checkSums({ buyer, stored, spentMinor, budgetMinor, used, afterMinor, count }: X402Outcome): string[] {
  const problems: string[] = [];
  const debited = stored.filter(({ status, settlement }) => status === 'completed' && settlement !== 'expired');
  const owed = debited.reduce((sum, { minor, fee_minor }) => sum + minor + fee_minor, 0n);
  if (spentMinor !== owed) problems.push(`${buyer.sessionId} has spent ${spentMinor} and should have ${owed}.`);
  if (spentMinor > budgetMinor) problems.push(`${buyer.sessionId} has spent ${spentMinor} of ${budgetMinor}.`);
  const moved = stored.filter(({ settlement }) => settlement === 'settled').reduce((sum, { minor }) => sum + minor, 0n);
  const { address, before } = buyer.agent;
  if (afterMinor !== before.minorUnits - moved)
    problems.push(
      `Wallet ${address} has ${afterMinor} minor units of USDC and should have ${before.minorUnits - moved}.`,
    );
  for (const [nonce, hash] of used)
    if (!stored.some((row) => row.auth_nonce === nonce))
      problems.push(`${hash} used authorisation ${nonce} of no payment.`);
  if (count > 0) problems.push(`Wallet ${address} has sent ${count} transactions.`);
  return problems;
}
