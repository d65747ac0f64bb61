/** Entries of a list that are told; a longer list is looked up in its policy. */
const maxTold = 10;

/** A list as the limit of a rule. @returns null when it is too long to be told */
export function listInWords(list: readonly string[]): string | null {
  return list.length <= maxTold ? list.join(', ') : null;
}
