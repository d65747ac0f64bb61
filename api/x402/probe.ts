import { PurserError } from '../../shared/errors.ts';
import type { GuardedAnswer, GuardedRequest, HttpGuard } from '../../shared/http-guard.ts';
import { OutgoingFailure } from '../../shared/outgoing-failure.ts';
import { type PaymentRequired, readOffers } from './read-offers.ts';

/** A request that is to be paid for. */
export type ProbeTarget = GuardedRequest;

/** Asks a target what it wants for a request, without paying. */
export type Probe = (target: ProbeTarget) => Promise<PaymentRequired>;

const ownHeaders = {
  'user-agent': 'purser',
  accept: 'application/json, */*;q=0.8',
};
/** Whatever the caller's headers say: an answer that is packed could be far larger than it looks. */
const fixedHeaders = { 'accept-encoding': 'identity' };

/**
 * Makes the probe.
 * @throws PurserError (the probe) 400 `payment_not_required` when the answer is not 402; `target_unreachable` when there
 *   is none, or none that can be read, with `details.reason`
 */
export function createProbe(guard: HttpGuard): Probe {
  return async (target) => {
    try {
      const answer = await guard({
        ...target,
        headers: { ...ownHeaders, ...lowerCased(target.headers), ...fixedHeaders },
      });
      if (answer.status !== 402) throw notRequired(answer);
      return readOffers(answer);
    } catch (error) {
      if (!(error instanceof OutgoingFailure)) throw error;
      throw new PurserError('target_unreachable', `The target could not be asked: ${error.message}.`, {
        details: { reason: error.reason },
        cause: error,
      });
    }
  };
}

function notRequired({ status }: GuardedAnswer): PurserError {
  const redirects = status >= 300 && status < 400 ? ' Redirects are not followed: name the place that asks.' : '';
  return new PurserError(
    'payment_not_required',
    `The target answered ${status} without asking for a payment (402).${redirects}`,
    { details: { status } },
  );
}

function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
