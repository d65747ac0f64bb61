/** How much a freeze stops. */
export const freezeScopes = ['installation', 'account', 'agent'] as const;
export type FreezeScope = (typeof freezeScopes)[number];

/** What is frozen, whole: what signers are told. */
export interface FreezeState {
  /** Grows with every change; milliseconds since 1970 at least. */
  readonly version: number;
  readonly installation: boolean;
  /** Ids of frozen accounts. */
  readonly accounts: readonly string[];
  /** Ids of frozen agents. */
  readonly agents: readonly string[];
}
