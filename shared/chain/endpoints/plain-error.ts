/** Longest text of a node that is repeated in an error. */
const maxTextLength = 300;
/** Errors nest a few levels; more than this is a loop. */
const maxCauses = 10;

/** A node's words as they may be repeated: without addresses, which carry credentials, and not endless. */
export function withoutAddresses(text: string): string {
  return text.replaceAll(/\b[a-z]{2,5}:\/\/\S+/gi, '[address]').slice(0, maxTextLength);
}

/** The system's name of a failure, e.g. `ECONNREFUSED`, from the innermost cause that has one. */
export function innermostCode(error: unknown): string | undefined {
  let code: string | undefined;
  let current = error as { code?: unknown; cause?: unknown } | undefined;
  for (let depth = 0; current && depth < maxCauses; depth += 1) {
    if (typeof current.code === 'string') code = current.code;
    current = current.cause as typeof current;
  }
  return code;
}

/** Whether the connection ended before an answer came: it had been closed at the other end. */
export function wasCutOff(error: unknown): boolean {
  return ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(innermostCode(error) ?? '');
}
