/** What policies, limits and questions know of a stored payment, be it a transaction or one out of an x402 session. */
export interface PaymentFacts {
  readonly id: string;
  readonly account_id: string;
  readonly agent_id: string;
  readonly chain: string;
  readonly token: string;
  readonly decimals: number;
  readonly amount_minor: string;
  readonly to_address: string;
}

/** Whether an id is that of a payment out of an x402 session. */
export function isX402(paymentId: string): boolean {
  return paymentId.startsWith('led_');
}
