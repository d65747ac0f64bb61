/** Longest time that an endpoint is left alone because it said so. */
const longestWishMs = 5 * 60_000;

/**
 * How long an endpoint asks to be left alone; of several wishes the longest.
 * @param p.header RFC 9110 Retry-After, seconds or a date
 * @param p.text the endpoint's words: "retry in 2m5s" of Ankr, "suspended for 5s" of TronGrid
 * @param p.otherMs what it said by other means
 */
export function wishedRestMs({
  header,
  text,
  otherMs = 0,
}: {
  header: string | null | undefined;
  text: string;
  otherMs?: number;
}): number | undefined {
  const [, minutes = '0', seconds = '0'] =
    /(?:retry in|try again in|suspended for) (?:(\d{1,3})m)?(?:(\d{1,4}) ?s)?/i.exec(text) ?? [];
  const wishes = [
    /^\d{1,6}$/.test(header ?? '') ? Number(header) * 1_000 : Date.parse(header ?? '') - Date.now(),
    Number(minutes) * 60_000 + Number(seconds) * 1_000,
    otherMs,
  ].filter((ms) => ms > 0);
  return wishes.length === 0 ? undefined : Math.min(Math.max(...wishes), longestWishMs);
}
