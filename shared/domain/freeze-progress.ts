/** Who was told the newest word about what is frozen. */
export interface FreezeProgress {
  /** Of the word; 0 before it was read. */
  readonly version: number;
  /** Signers that have it on disk. Nothing new is signed against it once there are {@link signersToFreeze}. */
  readonly confirmed: readonly number[];
  /** Signers that have not confirmed it, and why. */
  readonly missing: readonly { readonly party: number; readonly error: string }[];
}

/** So many signers sign nothing without the third. */
export const signersToFreeze = 2;

/** Which signers know what is frozen, in words. */
export function describeFreezeProgress({ version, confirmed, missing }: FreezeProgress): string {
  if (confirmed.length === 0 && missing.length === 0) return 'Reads what is frozen, and tells the signers.';
  const know = confirmed.length === 0 ? 'No signer has' : `Confirmed by signers ${confirmed.join(', ')}: they have`;
  const told = `${know} version ${version} of what is frozen on disk.`;
  return [told, ...missing.map(({ party, error }) => `Signer ${party} has not confirmed it: ${error}`)].join('\n');
}
