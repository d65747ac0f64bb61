/** Tokens pegged to one dollar: limits count them together. */
const stablecoinSymbols: readonly string[] = ['USDC', 'USDT', 'DAI'];

/** What a rule's `token` says when it means all of them. */
export const stablecoins = 'stablecoins';

export function isStablecoin(symbol: string): boolean {
  return stablecoinSymbols.includes(symbol);
}

/**
 * Which tokens a limit counts together when it meets a payment.
 * @param ruleToken the rule's `token`: a symbol, `stablecoins`, or nothing
 * @param paymentToken symbol of the token that is sent
 * @returns the tokens; nothing when the rule is not about this payment
 */
export function countedTokens(ruleToken: string | undefined, paymentToken: string): readonly string[] | undefined {
  if (ruleToken === stablecoins) return isStablecoin(paymentToken) ? stablecoinSymbols : undefined;
  if (ruleToken !== undefined) return ruleToken === paymentToken ? [paymentToken] : undefined;
  return isStablecoin(paymentToken) ? stablecoinSymbols : [paymentToken];
}
