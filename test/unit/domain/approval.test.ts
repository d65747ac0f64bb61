import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type ApprovalState,
  type ApprovalStatus,
  type ApprovalStep,
  advanceApproval,
  isAgreed,
  stillAsks,
} from '../../../shared/domain/approval.ts';

const people = ['a@example.com', 'b@example.com', 'c@example.com', 'd@example.com', 'e@example.com'];
const expiresMs = Date.parse('2026-03-01T12:00:00.000Z');

const question = (change: Partial<ApprovalState> = {}): ApprovalState => ({
  status: 'pending',
  required_approvals: 1,
  approvers: people.slice(0, 3),
  decisions: [],
  expires_at: new Date(expiresMs),
  ...change,
});
const decide = (approver: string, decision: 'approved' | 'rejected' = 'approved'): ApprovalStep => ({
  kind: 'decide',
  approver,
  decision,
  note: null,
});
const expire: ApprovalStep = { kind: 'expire' };
const at = (offsetMs: number) => new Date(expiresMs + offsetMs);

/** Goes on from a state by what the reducer answers. */
function follow(state: ApprovalState, step: ApprovalStep, now: Date) {
  const result = advanceApproval(state, step, now);
  return { result, state: 'refusal' in result ? state : { ...state, ...result } };
}

describe('m of n', () => {
  it('is approved by the last approval that is required, not before', () => {
    let state = question({ required_approvals: 2 });
    ({ state } = follow(state, decide(people[0]!), at(-2)));
    expect(state.status).toBe('pending');
    ({ state } = follow(state, decide(people[2]!), at(-1)));
    expect(state).toMatchObject({
      status: 'approved',
      decisions: [
        { approver: people[0], decision: 'approved', note: null, decided_at: '2026-03-01T11:59:59.998Z' },
        { approver: people[2], decision: 'approved', note: null, decided_at: '2026-03-01T11:59:59.999Z' },
      ],
    });
  });

  it('is rejected by one person, however many have agreed', () => {
    let state = question({ required_approvals: 3 });
    ({ state } = follow(state, decide(people[0]!), at(-3)));
    ({ state } = follow(state, decide(people[1]!), at(-2)));
    ({ state } = follow(state, decide(people[2]!, 'rejected'), at(-1)));
    expect(state.status).toBe('rejected');
  });

  it.each<[string, Partial<ApprovalState>, ApprovalStep, number, string]>([
    ['somebody who is not asked', {}, decide('x@example.com'), -1, 'not_approver'],
    ['somebody who is not asked, also when it is over', { status: 'rejected' }, decide(people[4]!), -1, 'not_approver'],
    ['a decision after an approval', { status: 'approved' }, decide(people[0]!), -1, 'already_decided'],
    ['a decision after a rejection', { status: 'rejected' }, decide(people[0]!), -1, 'already_decided'],
    ['a decision of what was withdrawn', { status: 'cancelled' }, decide(people[0]!), -1, 'already_decided'],
    ['a decision of what has expired', { status: 'expired' }, decide(people[0]!), -1, 'expired'],
    ['a decision at the very end', {}, decide(people[0]!), 0, 'expired'],
    ['a rejection at the very end', {}, decide(people[0]!, 'rejected'), 0, 'expired'],
    ['the timer a millisecond early', {}, expire, -1, 'not_yet'],
    ['the timer after an approval', { status: 'approved' }, expire, 1, 'already_decided'],
    ['the timer once more', { status: 'expired' }, expire, 1, 'expired'],
  ])('refuses %s', (_what, change, step, offsetMs, refusal) => {
    expect(advanceApproval(question(change), step, at(offsetMs))).toEqual({ refusal });
  });

  it('refuses a second decision of one person, whichever it is', () => {
    const { state } = follow(question({ required_approvals: 2 }), decide(people[0]!), at(-2));
    for (const decision of ['approved', 'rejected'] as const)
      expect(advanceApproval(state, decide(people[0]!, decision), at(-1))).toEqual({ refusal: 'decided_before' });
  });

  it('changes hands exactly at its end: a millisecond before a person decides, at it the timer', () => {
    expect(advanceApproval(question(), decide(people[0]!), at(-1))).toMatchObject({ status: 'approved' });
    expect(advanceApproval(question(), expire, at(-1))).toEqual({ refusal: 'not_yet' });
    expect(advanceApproval(question(), decide(people[0]!), at(0))).toEqual({ refusal: 'expired' });
    expect(advanceApproval(question(), expire, at(0))).toEqual({ status: 'expired', decisions: [] });
  });
});

interface Move {
  readonly step: ApprovalStep;
  readonly offsetMs: number;
}

const anyQuestion = fc
  .record({ n: fc.integer({ min: 1, max: 4 }), m: fc.integer({ min: 1, max: 4 }) })
  .filter(({ n, m }) => m <= n)
  .map(({ n, m }) => question({ required_approvals: m, approvers: people.slice(0, n) }));
const anyStep = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...people).map((person) => decide(person)) },
  { weight: 1, arbitrary: fc.constantFrom(...people).map((person) => decide(person, 'rejected')) },
  { weight: 1, arbitrary: fc.constant(expire) },
);
/** Steps in the order of their instants, around the end. */
const anyMoves: fc.Arbitrary<Move[]> = fc
  .array(fc.record({ step: anyStep, offsetMs: fc.integer({ min: -12, max: 4 }) }), { maxLength: 16 })
  .map((moves) => moves.toSorted((one, other) => one.offsetMs - other.offsetMs));

/** What must come out, told by looking at the whole past instead of step by step. */
function model({ approvers, required_approvals }: ApprovalState, moves: readonly Move[]): ApprovalStatus {
  const answered = new Map<string, 'approved' | 'rejected'>();
  for (const { step, offsetMs } of moves) {
    if (step.kind === 'expire' || offsetMs >= 0) continue;
    if (!approvers.includes(step.approver) || answered.has(step.approver)) continue;
    answered.set(step.approver, step.decision);
    const all = [...answered.values()];
    if (all.includes('rejected')) return 'rejected';
    if (all.length === required_approvals) return 'approved';
  }
  return moves.some(({ step, offsetMs }) => step.kind === 'expire' && offsetMs >= 0) ? 'expired' : 'pending';
}

describe('any order of people and timer', () => {
  it('comes to what the whole past says', () => {
    fc.assert(
      fc.property(anyQuestion, anyMoves, (start, moves) => {
        let state = start;
        for (const { step, offsetMs } of moves) ({ state } = follow(state, step, at(offsetMs)));
        expect(state.status).toBe(model(start, moves));
      }),
      { numRuns: 2_000 },
    );
  });

  it('ends once, and changes nothing afterwards', () => {
    fc.assert(
      fc.property(anyQuestion, anyMoves, (start, moves) => {
        let state = start;
        let ends = 0;
        for (const { step, offsetMs } of moves) {
          const before = state;
          const { result, state: after } = follow(before, step, at(offsetMs));
          if (before.status !== 'pending') expect(result).toHaveProperty('refusal');
          if (before.status === 'pending' && after.status !== 'pending') ends += 1;
          state = after;
        }
        expect(ends).toBe(state.status === 'pending' ? 0 : 1);
      }),
      { numRuns: 1_000 },
    );
  });

  it('holds one decision for each person, all of them before the end, and as many as the outcome needs', () => {
    fc.assert(
      fc.property(anyQuestion, anyMoves, (start, moves) => {
        let state = start;
        for (const { step, offsetMs } of moves) ({ state } = follow(state, step, at(offsetMs)));
        const { decisions, status } = state;
        expect(new Set(decisions.map(({ approver }) => approver)).size).toBe(decisions.length);
        for (const { approver, decided_at } of decisions) {
          expect(start.approvers).toContain(approver);
          expect(Date.parse(decided_at)).toBeLessThan(expiresMs);
        }
        const rejections = decisions.filter(({ decision }) => decision === 'rejected').length;
        expect(rejections).toBe(status === 'rejected' ? 1 : 0);
        expect(decisions.length === start.required_approvals && rejections === 0).toBe(status === 'approved');
        if (status === 'rejected') expect(decisions.at(-1)?.decision).toBe('rejected');
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('a question beside the policy as it is now', () => {
  const demand = (approvers: string[], required_approvals = 1) => ({
    policy_id: 'pol_1',
    threshold: '10',
    timeout_seconds: 60,
    approvers,
    required_approvals,
  });
  const [a, b, c] = people as [string, string, string, string, string];

  it('asks the same people in any order, and as many of them', () => {
    const asked = question({ approvers: [a, b], required_approvals: 2 });
    expect(stillAsks(asked, demand([b, a], 2))).toBe(true);
    for (const other of [demand([a, b], 1), demand([a], 1), demand([a, b, c], 2), demand([a, c], 2)])
      expect(stillAsks(asked, other)).toBe(false);
  });

  it('is agreed only as far as those who agreed are still named', () => {
    const { state } = follow(question({ approvers: [a, b] }), decide(a), at(-1));
    expect(isAgreed(state, demand([a, c]))).toBe(true);
    expect(isAgreed(state, demand([b, c]))).toBe(false);
    expect(isAgreed(state, demand([a, b], 2))).toBe(false);
    expect(isAgreed({ ...state, status: 'cancelled' }, demand([a]))).toBe(false);
  });
});
