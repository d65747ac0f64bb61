import { type Asked, storedId } from './load.ts';
import type { StoredPayment } from './stored.ts';

/** What was answered is what is stored: nothing lost, nothing twice, nothing that nobody asked for. */
export function checkAsked({ asked, stored }: { asked: readonly Asked[]; stored: readonly StoredPayment[] }): string[] {
  return [...asked.flatMap((each) => checkAnswers(each, stored)), ...checkRows(asked, stored)];
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

function checkRows(asked: readonly Asked[], stored: readonly StoredPayment[]): string[] {
  const memos = new Set(asked.map(({ memo }) => memo));
  return stored.flatMap((row) => {
    const problems: string[] = [];
    if (!memos.has(row.memo ?? '')) problems.push(`${row.id} was asked for by nobody.`);
    if (row.status === 'failed' && !row.failure_code) problems.push(`${row.id} failed without a reason.`);
    return problems;
  });
}
