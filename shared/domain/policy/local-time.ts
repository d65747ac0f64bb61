/** Days as `Intl` writes them in English, at their number: Sunday is 0. */
export const dayNames: readonly string[] = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** What a wall clock shows. */
export interface LocalTime {
  /** 0 is Sunday. */
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
}

/** By the zone's name in lower case: as many as there are zones, and no more. */
const formatters = new Map<string, Intl.DateTimeFormat>();

/** Names only: `Intl` takes offsets such as `+05:45` too, which have no daylight-saving time and no name. */
const zoneName = /^[A-Za-z][A-Za-z0-9_+-]*(\/[A-Za-z0-9_+-]+)*$/;

/** Whether a string names a zone of the IANA database. */
export function isTimeZone(zone: string): boolean {
  if (!zoneName.test(zone)) return false;
  try {
    formatterOf(zone);
    return true;
  } catch {
    return false;
  }
}

/** What the clocks of a zone show at an instant. @throws RangeError when there is no such zone */
export function localTime(instant: Date, zone: string): LocalTime {
  const parts = new Map(
    formatterOf(zone)
      .formatToParts(instant)
      .map(({ type, value }) => [type, value]),
  );
  const day = dayNames.indexOf(parts.get('weekday') ?? '');
  const [hour, minute] = [Number(parts.get('hour')), Number(parts.get('minute'))];
  if (day < 0 || Number.isNaN(hour + minute)) throw new Error(`The time in ${zone} cannot be read.`);
  return { day, hour, minute };
}

function formatterOf(zone: string): Intl.DateTimeFormat {
  const key = zone.toLowerCase();
  const known = formatters.get(key);
  if (known) return known;
  const formatter = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    calendar: 'gregory',
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  });
  formatters.set(key, formatter);
  return formatter;
}
