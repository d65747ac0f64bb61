/** Two of three: fixed by the design of the service, not by configuration. */
export const PARTIES = [1, 2, 3] as const;
export const THRESHOLD = 2;
/** Rounds of key generation; in the last all compare what everybody broadcast, the public key and the chain code. */
export const KEYGEN_ROUNDS = 4;
/** Rounds of both kinds of refresh; in the last all compare what came out. */
export const REFRESH_ROUNDS = 4;

export type Party = (typeof PARTIES)[number];

/** The parties other than `own`. */
export function othersThan(own: Party): Party[] {
  return PARTIES.filter((party) => party !== own);
}
