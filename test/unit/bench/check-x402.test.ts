import type { Hex } from 'viem';
import { describe, expect, it } from 'vitest';
import { checkX402 } from '../../../bench/crash/check-x402.ts';
import type { Answer } from '../../../bench/crash/client.ts';
import type { AskedX402 } from '../../../bench/crash/x402-load.ts';
import type { StoredX402, X402Outcome } from '../../../bench/crash/x402-outcome.ts';

const wallet = '0x70997970c51812dc3a010c7d01b50e0d17dc79c8';
const overAt = 1_000;

function stored(id: string, changes: Partial<StoredX402> = {}): StoredX402 {
  return {
    ...{ id, status: 'completed', failure_code: null, settlement: 'settled', tx_hash: `0x${id}` as Hex },
    ...{ auth_nonce: `0xnonce-${id}` as Hex, valid_before: overAt, minor: 10n, fee_minor: 1n },
    ...{ payment_signature: `header ${id}`, changed_at: overAt - 10 },
    ...changes,
  };
}

function asked(key: string, ...answers: Answer[]): AskedX402 {
  return { planned: { atMs: 0, amountMinor: 10, client: 'insists', usedAfterMs: 0 }, key, answers };
}

const answer = (ledger_id: string, payment_signature: string | null = `header ${ledger_id}`): Answer => ({
  ...{ status: 200, body: { ledger_id, payment_signature }, replayed: false },
});
const refusal = (code: string): Answer => ({ status: 400, body: { code }, replayed: false });

/** One was settled, one has expired, one failed, one was too much: all is well. */
function outcome(): X402Outcome {
  return {
    buyer: {
      agent: { id: 'agent', address: wallet, policies: [], before: { wei: 0n, minorUnits: 100n } },
      sessionId: 'session',
    },
    asked: [
      asked('one', answer('a', null), answer('a')),
      asked('two', answer('b')),
      asked('three', { status: 400, body: { code: 'agent_inactive', details: { ledger_id: 'c' } }, replayed: false }),
      asked('four', refusal('budget_exceeded')),
    ],
    stored: [
      stored('a'),
      stored('b', { settlement: 'expired', tx_hash: null, changed_at: overAt + 5 }),
      stored('c', {
        ...{ status: 'failed', failure_code: 'agent_inactive', settlement: null, tx_hash: null },
        ...{ auth_nonce: null, valid_before: null, payment_signature: null },
      }),
    ],
    spentMinor: 11n,
    budgetMinor: 30n,
    used: new Map([['0xnonce-a', '0xa']]),
    chainTime: overAt + 1,
    afterMinor: 90n,
    count: 0,
  };
}

const withRow = (index: number, changes: Partial<StoredX402>): Partial<X402Outcome> => ({
  stored: outcome().stored.map((row, at) => (at === index ? { ...row, ...changes } : row)),
});

describe('the check of a session', () => {
  it('finds nothing where all is well', () => {
    expect(checkX402(outcome())).toEqual([]);
  });

  it.each<[what: string, changes: Partial<X402Outcome>, problem: RegExp]>([
    ['a lost payment', { stored: outcome().stored.slice(1), spentMinor: 0n }, /which is not stored/],
    ['a client without an answer', { asked: [asked('one')] }, /never answered/],
    ['a refusal that must not be', { asked: [asked('one', refusal('invalid_request'))] }, /was refused/],
    ['two payments for one key', { asked: [asked('one', answer('a'), answer('b'))] }, /different ids/],
    ['two headers for one key', { asked: [asked('one', answer('a'), answer('a', 'other'))] }, /2 headers/],
    ['a header that is not stored', { asked: [asked('one', answer('a', 'other'))] }, /not stored/],
    ['a payment that is open', withRow(0, { settlement: 'unsettled' }), /unsettled/],
    ['a payment that waits', withRow(2, { status: 'pending', failure_code: null }), /c is pending/],
    ['a failure without a reason', withRow(2, { failure_code: null }), /without a reason/],
    ['a settlement that the chain does not have', { used: new Map() }, /has not seen it used/],
    ['a settlement by another transaction', withRow(0, { tx_hash: '0xb' }), /the chain has 0xa/],
    [
      'a budget that came back although the money has moved',
      { used: new Map([...outcome().used, ['0xnonce-b', '0xb']]) },
      /b is completed, expired, and was used by 0xb/,
    ],
    ['a failed payment that was used', withRow(2, { auth_nonce: '0xnonce-a' }), /c is failed, null, and was used/],
    ['a budget that came back too early for the chain', { chainTime: overAt }, /would still take it/],
    ['a budget that came back too early', withRow(1, { changed_at: overAt }), /was given back/],
    ['a budget that was not given back', { spentMinor: 22n }, /has spent 22 and should have 11/],
    ['a budget that came back twice', { spentMinor: 0n }, /has spent 0 and should have 11/],
    ['a budget that is exceeded', { budgetMinor: 10n }, /has spent 11 of 10/],
    ['money that is missing', { afterMinor: 89n }, /should have 90/],
    [
      'a use of no payment',
      { used: new Map([...outcome().used, ['0xother', '0xc']]) },
      /used authorisation 0xother of no payment/,
    ],
    ['a transaction that nobody asked for', { count: 1 }, /has sent 1/],
  ])('finds %s', (_, changes, problem) => {
    expect(checkX402({ ...outcome(), ...changes }).join('\n')).toMatch(problem);
  });
});
