import { z } from 'zod';
import { dayNames, isTimeZone, type LocalTime, localTime } from './local-time.ts';
import { listOfOnes, rulesOf, wholeNumber } from './rule-fields.ts';
import type { PolicyKind } from './types.ts';

interface Hours {
  /** Inclusive. */
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

interface ScheduleRules {
  readonly timezone: string;
  readonly allowed_hours?: Hours | undefined;
  readonly allowed_days?: readonly number[] | undefined;
}

/** Says at which hours and on which days may be paid, by the clocks of one time zone. */
export const schedule: PolicyKind<ScheduleRules> = {
  description: 'Hours and days on which may be paid, by the clocks of a time zone; at least one of them.',
  rules: () =>
    rulesOf({ timezone, allowed_hours: hours.optional(), allowed_days: days.optional() }, (rules, context) => {
      if (!rules.allowed_hours && !rules.allowed_days)
        context.addIssue({ code: 'custom', message: 'must have allowed_hours, allowed_days, or both.' });
    }),
  windowsMs: () => [],
  judge(rules, { now }) {
    const { allowed_hours, allowed_days } = rules;
    const local = localTime(now, rules.timezone);
    const told = {
      limit: inWords(rules),
      attempted: `${dayNames[local.day]} ${twoDigits(local.hour)}:${twoDigits(local.minute)}`,
      used: null,
      remaining: null,
      resets_at: null,
    };
    return {
      checks: [
        ...(allowed_hours ? [{ rule: 'allowed_hours', ...told, passed: isWithin(allowed_hours, local) }] : []),
        ...(allowed_days
          ? [{ rule: 'allowed_days', ...told, passed: allowed_days.includes(startingDay(allowed_hours, local)) }]
          : []),
      ],
    };
  },
  explain: ({ policy_id, rule, limit, attempted }) =>
    `It is ${attempted}, outside ${rule} of policy ${policy_id}, which allows ${limit}.`,
};

const timezone = z
  .string()
  .refine(isTimeZone, { error: 'must be the name of an IANA time zone such as "America/New_York", not an offset.' })
  .meta({ description: 'IANA time zone.', example: 'America/New_York' });

const hours = z
  .strictObject({
    start: wholeNumber({ min: 0, max: 23, description: 'First hour that is allowed.' }),
    end: wholeNumber({ min: 1, max: 24, description: 'First hour that is not allowed any more.' }),
  })
  .refine(({ start, end }) => start !== end, { error: 'must not start and end at the same hour: nothing would pass.' })
  .meta({
    description:
      'From `start` to before `end`. With `start` after `end` it runs past midnight, and belongs to the day on which it starts.',
    example: { start: 9, end: 17 },
  });

const days = listOfOnes(
  wholeNumber({ min: 0, max: 7, description: '1 is Monday, 6 is Saturday, Sunday is 0 or 7.' }).overwrite((day) =>
    day === 7 ? 0 : day,
  ),
  { description: 'Days of the week; answered with Sunday as 0.' },
);

const isPastMidnight = ({ start, end }: Hours) => start > end;

function isWithin(allowed: Hours, { hour }: LocalTime): boolean {
  const { start, end } = allowed;
  return isPastMidnight(allowed) ? hour >= start || hour < end : hour >= start && hour < end;
}

/** The day that the time is counted to: the hours after midnight of a window past it are of the day before. */
function startingDay(allowed: Hours | undefined, { day, hour }: LocalTime): number {
  return allowed && isPastMidnight(allowed) && hour < allowed.end ? (day + 6) % 7 : day;
}

/** @example `9-17 h, Mon Tue (America/New_York)` */
function inWords({ timezone, allowed_hours, allowed_days }: ScheduleRules): string {
  const parts = [
    ...(allowed_hours ? [`${allowed_hours.start}-${allowed_hours.end} h`] : []),
    ...(allowed_days ? [allowed_days.map((day) => dayNames[day]).join(' ')] : []),
  ];
  return `${parts.join(', ')} (${timezone})`;
}

const twoDigits = (value: number) => String(value).padStart(2, '0');
