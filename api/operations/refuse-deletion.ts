import type { Business, UnfinishedRow } from '../../shared/db/unfinished-business.ts';
import { PurserError } from '../../shared/errors.ts';
import type { WorthKeeping } from './worth-keeping.ts';

const words: Readonly<Record<Business, string>> = {
  transactions: 'payments under way',
  x402_sessions: 'x402 sessions that hold their budget',
  x402_payments: 'x402 payments that are not settled',
  approvals: 'questions that wait for an answer',
};

/** @throws PurserError 400 that lists what is in the way, if anything is */
export function refuseDeletion(
  id: string,
  { unfinished, balances, unreadable }: WorthKeeping & { unfinished: readonly UnfinishedRow[] },
): void {
  if (unfinished.length === 0 && balances.length === 0 && unreadable.length === 0) return;
  const byKind = Map.groupBy(unfinished, ({ kind }) => kind);
  const named = [...byKind].map(([kind, rows]) => `${words[kind]} (${rows.map((row) => row.id).join(', ')})`);
  const held = balances.map(({ amount, token, chain }) => `${amount} ${token} on ${chain}`);
  const unknown = unreadable.map(({ token, chain, error }) => `${token} on ${chain} (${error})`);
  const reasons = [
    ...(named.length > 0 ? [`it has ${named.join(', ')}`] : []),
    ...(held.length > 0 ? [`its wallet holds ${held.join(', ')}, which nobody could move any more`] : []),
    ...(unknown.length > 0 ? [`nobody can say now what its wallet holds of ${unknown.join(', ')}`] : []),
  ];
  throw new PurserError('invalid_request', `Agent ${id} cannot be deleted: ${reasons.join('; ')}.`, {
    details: {
      ...Object.fromEntries(
        (Object.keys(words) as Business[]).map((kind) => [kind, byKind.get(kind)?.map((row) => row.id) ?? []]),
      ),
      balances,
      unreadable,
    },
  });
}
