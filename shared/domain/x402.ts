/** An authorisation (EIP-3009) before it is signed; times are Unix seconds. JSON-safe. */
export interface AuthorizationStamp {
  /** 32 random bytes. */
  readonly nonce: `0x${string}`;
  readonly validAfter: number;
  readonly validBefore: number;
}

/** Clocks of payer and chain may differ by so much before an authorisation looks as if it were from the future. */
const backdatedSeconds = 600;
const longestWindowSeconds = 300;
const shortestWindowSeconds = 30;

/** How long an authorisation is good for which the target allows so much. @param maxTimeoutSeconds more than zero */
export function windowOf(maxTimeoutSeconds: number): number {
  return Math.max(shortestWindowSeconds, Math.min(Math.floor(maxTimeoutSeconds), longestWindowSeconds));
}

/** When an authorisation that is made now begins and ends to be good. */
export function stampTimes({ now, windowSeconds }: { now: Date; windowSeconds: number }) {
  const seconds = Math.floor(now.getTime() / 1000);
  return { validAfter: seconds - backdatedSeconds, validBefore: seconds + windowSeconds };
}

/** How long signing an authorisation, and handing it out, still makes sense; less than zero when it makes none any more. */
export function msLeftToSign({
  now,
  validBefore,
  windowSeconds,
}: {
  now: Date;
  validBefore: number;
  windowSeconds: number;
}): number {
  const neededSeconds = Math.min(shortestWindowSeconds, windowSeconds / 2);
  return (validBefore - neededSeconds) * 1000 - now.getTime();
}
