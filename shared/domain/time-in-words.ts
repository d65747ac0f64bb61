/** Times as mails and pages write them for people, alike. */

const day = new Intl.DateTimeFormat('en-GB', {
  timeZone: 'UTC',
  weekday: 'long',
  day: 'numeric',
  month: 'long',
  year: 'numeric',
});
const clock = new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', hour: '2-digit', minute: '2-digit' });

/** @returns e.g. `Friday 6 March 2026, 09:30 UTC`, seconds cut off */
export function timeInWords(instant: Date): string {
  return `${day.format(instant).replace(',', '')}, ${clock.format(instant)} UTC`;
}

const units = [
  { name: 'day', minutes: 1440 },
  { name: 'hour', minutes: 60 },
  { name: 'minute', minutes: 1 },
];

/** A length of time by its two largest units, cut off: never more than there is. @returns e.g. `1 hour 24 minutes` */
export function durationInWords(lengthMs: number): string {
  let minutes = Math.floor(lengthMs / 60_000);
  if (minutes < 1) return 'less than a minute';
  const words: string[] = [];
  for (const unit of units) {
    const count = Math.floor(minutes / unit.minutes);
    minutes -= count * unit.minutes;
    if (count > 0) words.push(`${count} ${unit.name}${count === 1 ? '' : 's'}`);
  }
  return words.slice(0, 2).join(' ');
}
