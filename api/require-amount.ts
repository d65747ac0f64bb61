import type { Chain, Registry, Token } from '../shared/chain/registry.ts';
import { type AmountFault, parseAmount } from '../shared/domain/money.ts';
import { PurserError } from '../shared/errors.ts';

/** The token that a request names, on its chain. @throws PurserError 400 `invalid_token` */
export function requireToken(registry: Registry, { chain, symbol }: { chain: Chain; symbol: string }): Token {
  const token = registry.token(chain.id, symbol);
  if (token) return token;
  const known = chain.tokens.map((each) => each.symbol).join(', ');
  throw new PurserError(
    'invalid_token',
    `token ${JSON.stringify(symbol)} is not known on ${chain.id}. Known are: ${known}.`,
    { param: 'token' },
  );
}

const amountSentences: Readonly<Record<AmountFault, (token: Token) => string>> = {
  not_decimal: () => 'must be a plain decimal string such as "12.5".',
  too_precise: (token) => `has more fraction digits than ${token.symbol} has (${token.decimals}). Nothing is rounded.`,
  zero: () => 'must be more than zero.',
  too_large: () => 'is larger than any chain can carry.',
};

/**
 * What a request means by an amount, in minor units.
 * @param param member that holds it
 * @throws PurserError 400 `invalid_amount`
 */
export function requireAmount(amount: string, { token, param }: { token: Token; param: string }): bigint {
  const minor = parseAmount(amount, token.decimals);
  if (typeof minor === 'bigint') return minor;
  throw new PurserError('invalid_amount', `${param} ${amountSentences[minor](token)}`, { param });
}
