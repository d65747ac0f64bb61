import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { describeAlert } from '../../../shared/domain/describe-alert.ts';
import {
  type AlertKind,
  alertKinds,
  calmMs,
  compareAlerts,
  graceMs,
  type SignerAlert,
  type SignerFinding,
} from '../../../shared/domain/signer-alerts.ts';

const minuteMs = 60_000;
const start = Date.parse('2026-11-28T12:00:00Z');
const at = (minutes: number) => new Date(start + minutes * minuteMs);
const finding = (kind: AlertKind, o: Partial<SignerFinding> = {}): SignerFinding => ({
  ...{ kind, party: 1, keyId: null, detail: 'so it is' },
  ...o,
});

/** Applies what each look changes, as the database does. */
function remember(alerts: readonly SignerAlert[], changes: ReturnType<typeof compareAlerts>, now: Date): SignerAlert[] {
  const gone = new Set([...changes.closed, ...changes.dropped].map(({ id }) => id));
  const seen = new Map(changes.seen.map((each) => [each.alert.id, each]));
  return [
    ...alerts
      .filter(({ id }) => !gone.has(id))
      .map((alert) => {
        const again = seen.get(alert.id);
        if (!again) return alert;
        return { ...alert, detail: again.detail, seenAt: now, openedAt: again.opens ? now : alert.openedAt };
      }),
    ...changes.found.map(({ opens, ...found }) => ({
      ...found,
      ...{ id: `${found.kind} ${now.getTime()}`, foundAt: now, seenAt: now, openedAt: opens ? now : null },
    })),
  ];
}

describe('what a look at the signers changes', () => {
  const look = (findings: readonly SignerFinding[], unsure: readonly AlertKind[] = []) => ({
    ...{ findings, unsure, answering: 3, keys: 1 },
  });

  it('opens an alert at once for what is no accident, and else when it has lasted', () => {
    const at0 = compareAlerts([], { look: look(alertKinds.map((kind) => finding(kind))), now: at(0) });
    expect(at0.found.filter(({ opens }) => opens).map(({ kind }) => kind)).toEqual([
      'signer_banned',
      'refresh_overdue',
    ]);
    let alerts = remember([], at0, at(0));
    const again = (minutes: number) => {
      const changes = compareAlerts(alerts, { look: look(alertKinds.map((kind) => finding(kind))), now: at(minutes) });
      alerts = remember(alerts, changes, at(minutes));
      return changes.seen.filter(({ opens }) => opens).map(({ alert }) => alert.kind);
    };
    expect(again(4)).toEqual([]);
    expect(again(5)).toEqual(['signer_unreachable', 'signers_unwatched']);
    expect(again(59)).toEqual([]);
    expect(again(60)).toEqual([
      ...['key_behind', 'key_without_records', 'refresh_unfinished', 'backup_missing', 'limits_differ'],
    ]);
    expect(again(600)).toEqual([]);
  });

  it('keeps alerts about other signers and other keys apart, and says what is found now', () => {
    const [first, second] = [finding('key_behind', { keyId: 'a' }), finding('key_behind', { keyId: 'b' })];
    const alerts = remember([], compareAlerts([], { look: look([first, second]), now: at(0) }), at(0));
    const other = finding('key_behind', { keyId: 'a', party: 2 });
    const changes = compareAlerts(alerts, { look: look([{ ...first, detail: 'worse' }, other]), now: at(1) });
    expect(changes.seen).toMatchObject([{ alert: { keyId: 'a', party: 1 }, detail: 'worse', opens: false }]);
    expect(changes.found).toMatchObject([{ keyId: 'a', party: 2 }]);
    expect(changes.dropped).toMatchObject([{ keyId: 'b' }]);
    expect(changes.closed).toEqual([]);
  });

  it('takes nothing to be over of which it may have missed something', () => {
    const banned = finding('signer_banned');
    const away = finding('signer_unreachable', { party: 2 });
    const alerts = remember([], compareAlerts([], { look: look([banned, away]), now: at(0) }), at(0));
    const changes = compareAlerts(alerts, { look: look([], ['signer_banned']), now: at(100) });
    expect(changes).toMatchObject({ closed: [], dropped: [{ kind: 'signer_unreachable' }] });
  });

  it('behaves over time as one who keeps a diary of each finding does', () => {
    const kinds = fc.constantFrom<AlertKind>('signer_banned', 'signer_unreachable', 'key_behind');
    const step = fc.record({
      minutes: fc.integer({ min: 1, max: 40 }),
      isFound: fc.boolean(),
      isUnsure: fc.boolean(),
    });
    fc.assert(
      fc.property(kinds, fc.array(step, { maxLength: 40 }), (kind, steps) => {
        let alerts: SignerAlert[] = [];
        let minutes = 0;
        let diary: { found: number; seen: number; open: boolean } | undefined;
        for (const { minutes: passed, isFound, isUnsure } of steps) {
          minutes += passed;
          const now = at(minutes);
          const seen = look(isFound ? [finding(kind)] : [], isUnsure ? [kind] : []);
          const changes = compareAlerts(alerts, { look: seen, now });
          alerts = remember(alerts, changes, now);
          let told: 'opened' | 'closed' | undefined;
          if (isFound) {
            diary = { found: diary?.found ?? minutes, seen: minutes, open: diary?.open ?? false };
            if (!diary.open && (minutes - diary.found) * minuteMs >= graceMs[kind]) {
              diary.open = true;
              told = 'opened';
            }
          } else if (diary && !isUnsure) {
            if (!diary.open) diary = undefined;
            else if ((minutes - diary.seen) * minuteMs >= calmMs) {
              diary = undefined;
              told = 'closed';
            }
          }
          const opened = [...changes.found, ...changes.seen].filter(({ opens }) => opens).length;
          expect([opened, changes.closed.length]).toEqual([told === 'opened' ? 1 : 0, told === 'closed' ? 1 : 0]);
          expect(alerts.map(({ openedAt }) => openedAt !== null)).toEqual(diary ? [diary.open] : []);
        }
      }),
    );
  });
});

describe('an alert in words', () => {
  it.each(alertKinds)('%s says what it is and what to do, in ASCII', (kind) => {
    const { title, advice } = describeAlert({ kind, party: 2, keyId: 'ckey_1' });
    expect(`${title} ${advice}`).toMatch(/^[\x20-\x7e]+$/);
    expect(`${title} ${advice}`).not.toMatch(/null|undefined/);
    expect(title).not.toMatch(/\.$/);
    expect(advice.length).toBeGreaterThan(40);
  });
});
