/** A mistake of the one at the console: told as it is, without a stack. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
