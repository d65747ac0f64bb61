/** Two of three: fixed by the design of the service, not by configuration. */
export const PARTIES = [1, 2, 3] as const;
export const THRESHOLD = 2;

export type Party = (typeof PARTIES)[number];

/** The parties other than `own`. */
export function othersThan(own: Party): Party[] {
  return PARTIES.filter((party) => party !== own);
}
