import type { PolicyDecision, X402Answer } from '../shared/temporal.ts';

/** What the handlers of a payment's workflow share with its steps. */
export interface Progress {
  /** What the POST is answered with; set once the policies have decided, and again if the payment then fails. */
  decision: PolicyDecision | undefined;
  /** Whether the chain has said that the payment can be made. */
  prepared: boolean;
  chainHint: boolean;
  slotHint: boolean;
  /** Somebody wants something else to be done with the payment. */
  replaceHint: boolean;
  answerHint: boolean;
  /** What nodes asked for when they last refused the payment's bytes as too cheap, where they said so. */
  floor: string | undefined;
  /** Whether people are told by mail; payments that an earlier version has asked about are not. */
  tellsPeople: boolean | undefined;
}

/** The same of a payment out of an x402 session. */
export interface X402Progress {
  /** What the POST is answered with. */
  answer: X402Answer | undefined;
  chainHint: boolean;
  /** Somebody wants everything to be looked at. */
  lookHint: boolean;
  answerHint: boolean;
  tellsPeople: true;
}
