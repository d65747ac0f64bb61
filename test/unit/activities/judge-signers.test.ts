import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judgeSigners } from '../../../activities/judge-signers.ts';
import { readSignerReport } from '../../../activities/signer-report.ts';
import type { PartyNumber } from '../../../shared/domain/signer-alerts.ts';

const now = new Date('2026-11-28T12:00:00Z');
const dayMs = 86_400_000;
const parties = [1, 2, 3] as const;
const settings = { refreshDays: 30, wantsBackups: true, now };

interface Held {
  keyId: string;
  hasRecords: boolean;
  epochs: { epoch: number; state: 'active' | 'stored'; sessionId: string; createdAtMs: number }[];
}
const epoch = (number: number, o: { state?: 'stored'; ageDays?: number } = {}): Held['epochs'][number] => ({
  ...{ epoch: number, state: o.state ?? 'active', sessionId: 'ab' },
  createdAtMs: now.getTime() - (o.ageDays ?? 1) * dayMs,
});
const key = (keyId: string, epochs = [epoch(1)], o: Partial<Held> = {}): Held => ({
  ...{ keyId, hasRecords: true, epochs },
  ...o,
});
const status = (party: PartyNumber, keys: Held[], bans: unknown[] = []) => ({ party, engine: 'wasm', keys, bans });
const judge = (answers: readonly { readonly party: PartyNumber }[]) =>
  judgeSigners(answers.map(readSignerReport), settings);
const three = (keys: Held[]) => parties.map((party) => status(party, keys));

describe('three signers that hold the same', () => {
  it('have nothing wrong with them', () => {
    expect(judge(three([key('a'), key('b', [epoch(7)])]))).toEqual({
      ...{ findings: [], unsure: [], answering: 3, keys: 2 },
    });
    expect(judge(three([]))).toMatchObject({ findings: [], keys: 0 });
  });

  it('have old shares where those are twice as old as they are to become, and not before', () => {
    expect(judge(three([key('a', [epoch(1, { ageDays: 60 })])])).findings).toEqual([]);
    const old = three([key('a', [epoch(2, { ageDays: 60.01 })])]);
    expect(judge(old).findings).toEqual([
      {
        ...{ kind: 'refresh_overdue', party: null, keyId: 'a' },
        detail: expect.stringMatching(/^its newest shares are of 2026-09-29T/),
      },
    ]);
    expect(judgeSigners(old.map(readSignerReport), { ...settings, refreshDays: 0 }).findings).toEqual([]);
  });

  it('are not made older or younger by one that lies', () => {
    const age = (ageDays: number) => [key('a', [epoch(1, { ageDays })])];
    const one = (lie: number, truth: number) =>
      judge([status(1, age(lie)), status(2, age(truth)), status(3, age(truth))]).findings.map(({ kind }) => kind);
    expect(one(10_000, 1)).toEqual([]);
    expect(one(0, 100)).toEqual(['refresh_overdue']);
  });
});

describe('signers that hold different things', () => {
  it('name the one that is behind, and what each has', () => {
    const found = judge([
      status(1, [key('a', [epoch(2)])]),
      status(2, [key('a', [epoch(1), epoch(2, { state: 'stored' })])]),
      status(3, []),
    ]);
    const detail = 'signer 1 has 2, signer 2 has 1 and 2 (not in use), signer 3 has no share';
    expect(found.findings).toEqual([
      { kind: 'key_behind', party: 2, keyId: 'a', detail },
      { kind: 'key_behind', party: 3, keyId: 'a', detail },
    ]);
  });

  it('name a key whose old shares are still there, or whose new ones are not in use', () => {
    const old = judge([
      status(1, [key('a', [epoch(1), epoch(2)])]),
      status(2, [key('a', [epoch(2)])]),
      status(3, [key('a', [epoch(2)])]),
    ]);
    expect(old.findings).toMatchObject([{ kind: 'refresh_unfinished', party: null, keyId: 'a' }]);
    const stored = judge(three([key('a', [epoch(1), epoch(2, { state: 'stored' })])]));
    expect(stored.findings).toMatchObject([{ kind: 'refresh_unfinished', keyId: 'a' }]);
  });

  it('name the one that lacks records', () => {
    const found = judge([
      status(1, [key('a')]),
      status(2, [key('a', [epoch(1)], { hasRecords: false })]),
      status(3, [key('a')]),
    ]);
    expect(found.findings).toMatchObject([{ kind: 'key_without_records', party: 2, keyId: 'a' }]);
  });

  it('name who is banned once, with everybody who says so', () => {
    const ban = (party: PartyNumber, reason: string) => [{ keyId: 'a', party, reason, atMs: 1 }];
    const found = judge([
      status(1, [key('a')], ban(3, 'it cheated')),
      status(2, [key('a')], ban(3, 'it\nlied')),
      status(3, [key('a')]),
    ]);
    expect(found.findings).toEqual([
      {
        ...{ kind: 'signer_banned', party: 3, keyId: 'a' },
        detail: 'signer 1 does nothing more with it: it cheated; signer 2 does nothing more with it: it lied',
      },
    ]);
  });
});

describe('backups', () => {
  const kept = { file: 'f', bytes: 1, currentAtMs: now.getTime() - 600_000, error: null };
  const backups = (backup: unknown, o: { wantsBackups?: boolean } = {}) =>
    judgeSigners(
      parties.map((party) => readSignerReport({ ...status(party, []), ...(party === 2 && { backup }) } as never)),
      { ...settings, ...o },
    ).findings;

  it('are missed where they are old, where they fail, and where there is no target but should be one', () => {
    expect(backups(kept)).toEqual([]);
    expect(backups({ ...kept, currentAtMs: kept.currentAtMs - 1 })).toMatchObject([
      { detail: 'it last held everything at 2026-11-28T11:49:59.999Z' },
    ]);
    expect(backups({ ...kept, currentAtMs: null })).toMatchObject([{ detail: expect.stringMatching(/^it has not/) }]);
    expect(backups({ ...kept, error: 'disk full' })).toEqual([
      { kind: 'backup_missing', party: 2, keyId: null, detail: 'disk full' },
    ]);
    expect(backups(null)).toMatchObject([{ kind: 'backup_missing', party: 2, detail: 'it has no target for one' }]);
    expect(backups(null, { wantsBackups: false })).toEqual([]);
  });
});

describe('limits of an owner', () => {
  const limits = (...versions: (number | undefined)[]) =>
    judge(
      parties.map((party, index) => ({
        ...status(party, [key('a')]),
        limits: versions[index] === undefined ? [] : [{ keyId: 'a', wallet: '*', version: versions[index] }],
      })),
    ).findings;

  it('are the same at all three, or somebody is told', () => {
    expect(limits(2, 2, 2)).toEqual([]);
    expect(limits()).toEqual([]);
    expect(limits(2, 1, undefined)).toEqual([
      {
        ...{ kind: 'limits_differ', party: null, keyId: 'a' },
        detail: 'wallet *: signer 1 has version 2, signer 2 has version 1, signer 3 has version none',
      },
    ]);
  });
});

describe('a signer that says nothing', () => {
  it('is named, and keeps everything else from being taken to be over', () => {
    const found = judge([
      status(1, [key('a')]),
      { party: 2, error: 'signer 2: no answer in time' } as never,
      status(3, [key('a')]),
    ]);
    expect(found).toMatchObject({
      findings: [{ kind: 'signer_unreachable', party: 2, keyId: null, detail: 'signer 2: no answer in time' }],
      ...{ answering: 2, keys: 1 },
    });
    expect(found.unsure).toEqual([
      ...['signer_banned', 'key_behind', 'key_without_records', 'refresh_unfinished', 'refresh_overdue'],
      ...['backup_missing', 'limits_differ'],
    ]);
  });

  it.each([
    ['nothing', {}],
    ['no list of keys', { keys: 'all', bans: [] }],
    ['an epoch that is none', { keys: [key('a', [{ ...epoch(1), epoch: 0.5 }])], bans: [] }],
    ['an instant that is none', { keys: [key('a', [{ ...epoch(1), createdAtMs: 8.64e15 + 1 }])], bans: [] }],
    ['a ban of nobody', { keys: [], bans: [{ keyId: 'a', party: 4, reason: 'x' }] }],
  ])('is one that says %s as well', (_, said) => {
    const found = judge([{ ...said, party: 1 } as never, status(2, []), status(3, [])]);
    expect(found.findings).toMatchObject([{ kind: 'signer_unreachable', party: 1 }]);
    expect(found.findings[0]!.detail).toMatch(/^signer 1 says what cannot be read: /);
  });
});

describe('a signer that tells tales', () => {
  it('is heard, and crowds out nothing that others say', () => {
    const made = Array.from({ length: 5_000 }, (_, index) => `0_${index}`);
    const tales = status(
      2,
      [...made.map((id) => key(id)), key('z')],
      made.flatMap((keyId) => [1, 3].map((party) => ({ keyId, party, reason: 'x', atMs: 1 }))),
    );
    const ban = [{ keyId: 'z', party: 2, reason: 'it cheated', atMs: 1 }];
    const found = judge([status(1, [key('z', [epoch(3)])], ban), tales, status(3, [key('z', [epoch(2)])])]);
    expect(found.findings.length).toBeLessThan(500);
    expect(found.findings).toContainEqual(expect.objectContaining({ kind: 'signer_banned', party: 2, keyId: 'z' }));
    expect(found.findings).toContainEqual(expect.objectContaining({ kind: 'key_behind', party: 2, keyId: 'z' }));
    // Signer 3 has none of what was made up; what it lacks of a key that others have as well comes first.
    expect(found.findings).toContainEqual(expect.objectContaining({ kind: 'key_behind', party: 3, keyId: 'z' }));
    expect(found.unsure).toEqual(expect.arrayContaining(['signer_banned', 'key_behind']));
    expect(JSON.stringify(found).length).toBeLessThan(500_000);
  });

  it('has its words cut, on one line, and without what steers a display', () => {
    const reason = `a\u202eb\n${'long '.repeat(100)}`;
    const { findings } = judge([status(1, [], [{ keyId: 'a', party: 2, reason }]), status(2, []), status(3, [])]);
    expect(findings[0]!.detail).toMatch(/^signer 1 does nothing more with it: a b long .*…$/);
    expect(findings[0]!.detail.length).toBeLessThan(260);
  });

  it('is heard once of each thing', () => {
    const bans = Array.from({ length: 1_000 }, () => ({ keyId: 'a', party: 3, reason: 'x'.repeat(150) }));
    const { findings } = judge([status(1, [], bans), status(2, []), status(3, [])]);
    expect(findings).toHaveLength(1);
    expect(findings[0]!.detail.length).toBeLessThan(250);
  });

  it('never breaks the look, whatever it says', () => {
    const honest = (party: PartyNumber) => status(party, [key('a')]);
    const anything = fc.oneof(
      fc.anything(),
      fc.record({
        keys: fc.array(
          fc.record({
            keyId: fc.string(),
            hasRecords: fc.boolean(),
            epochs: fc.array(
              fc.record({
                epoch: fc.integer(),
                state: fc.constantFrom('stored', 'active', 'other'),
                createdAtMs: fc.double(),
              }),
            ),
          }),
        ),
        bans: fc.array(fc.record({ keyId: fc.string(), party: fc.integer(), reason: fc.string() })),
      }),
    );
    fc.assert(
      fc.property(anything, (said) => {
        const answer = { ...(said as object), party: 2 as const };
        const found = judge([honest(1), answer, honest(3)]);
        expect(found.answering).toBeGreaterThanOrEqual(2);
        for (const { detail } of found.findings) expect(detail).toMatch(/^\P{Cc}{1,2000}$/u);
      }),
      { numRuns: 500 },
    );
  });
});
