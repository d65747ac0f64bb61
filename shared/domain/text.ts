/** Why a string is not text that the service keeps. */
export type TextFault = 'unpaired_surrogate' | 'control_character' | 'too_short' | 'too_long';

export interface TextRule {
  /** Code points after normalisation. */
  readonly minLength?: number;
  readonly maxLength: number;
  /** Whether newline and tab may stand in it (memo, note, description). */
  readonly multiline?: boolean;
}

/** Control characters (Unicode category Cc): NUL, which Postgres cannot store, and everything that garbles a terminal or a log. */
const control = /\p{Cc}/u;
const controlButLines = /[^\P{Cc}\n\t]/u;

/**
 * Brings text into the one form in which it is stored and compared: Unicode NFC.
 * @returns the text, or the rule that it breaks
 */
export function normaliseText(
  text: string,
  { minLength = 0, maxLength, multiline = false }: TextRule,
): { readonly text: string } | { readonly fault: TextFault } {
  if (!text.isWellFormed()) return { fault: 'unpaired_surrogate' };
  if ((multiline ? controlButLines : control).test(text)) return { fault: 'control_character' };
  const normal = text.normalize('NFC');
  const length = countCodePoints(normal);
  if (length < minLength) return { fault: 'too_short' };
  if (length > maxLength) return { fault: 'too_long' };
  return { text: normal };
}

function countCodePoints(text: string): number {
  let count = 0;
  for (const _point of text) count += 1;
  return count;
}
