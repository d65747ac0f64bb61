/** What a look at one thing has found. */
export interface Finding {
  /** What was looked at. */
  readonly check: string;
  /** `warning`: somebody should know it, and nothing is broken by it. */
  readonly status: 'ok' | 'warning' | 'wrong' | 'not_checked';
  /** What was seen; for what is wrong, with what to do. Never a secret. */
  readonly detail: string;
}

/** Longest look at one thing, in milliseconds. */
export const lookMs = 10_000;

export const ok = (check: string, detail: string): Finding => ({ check, status: 'ok', detail });
export const warning = (check: string, detail: string): Finding => ({ check, status: 'warning', detail });
export const wrong = (check: string, detail: string): Finding => ({ check, status: 'wrong', detail });

/** @param variables whose setting would let it be looked at */
export const notChecked = (check: string, ...variables: string[]): Finding => ({
  check,
  status: 'not_checked',
  detail: `set ${variables.join(' and ')}`,
});

/** One finding, whatever happens: what is thrown, or takes too long, is what is wrong. @param todo what to do then */
export async function look(check: string, todo: string, work: () => Promise<Finding>): Promise<Finding> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`there was no answer within ${lookMs / 1000} s`)), lookMs);
  try {
    return await Promise.race([work(), late]);
  } catch (error) {
    return wrong(check, `${wordsOf(error)}. ${todo}`);
  } finally {
    clearTimeout(timer);
  }
}

/** What an error says in one line; some have nothing but a code, or stand for several. */
export function wordsOf(error: unknown): string {
  const { message, code, cause, details } = error as Error & { code?: unknown; details?: string };
  const own = details || message || String(code ?? error);
  const below = cause instanceof Error ? wordsOf(cause) : '';
  return [...new Set([own, below])]
    .filter((text) => text !== '')
    .join(': ')
    .replaceAll(/\s+/g, ' ')
    .replace(/\.$/, '');
}
