/** Characters that steer the display instead of being displayed; the two joiners are part of scripts and emoji. */
const steering = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]+/gu;
const [isolate, endOfIsolate, breakHere] = ['\u2068', '\u2069', '\u200b'];

/**
 * Text of somebody else's, such as a name, for a mail: it stays in its place and does nothing. Mail programs make links of
 * whatever looks like one, also in plain text, so every punctuation mark is followed by a space of no width (U+200B):
 * `evil.example`, `https://…` and `a@b` are shown as they are, and are no links. It runs in its own direction without
 * turning its neighbours around (isolates of UAX #9); characters that could are taken out.
 */
export function inertText(text: string): string {
  const shown = text.replaceAll(steering, ' ').trim();
  return isolate + shown.replaceAll(/(\p{P})(?=\S)/gu, `$1${breakHere}`) + endOfIsolate;
}
