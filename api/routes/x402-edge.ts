import type { FeeTier } from '../../shared/domain/x402-fee.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { type CheckTargetDependencies, checkTarget } from '../operations/check-target.ts';
import { checkBody, checkedTarget, feeTiers } from '../schemas/x402-edge.ts';

const tag = 'x402';

export interface X402EdgeDependencies extends CheckTargetDependencies {
  readonly feeTiers: readonly FeeTier[];
}

/** What x402 costs, here and at a target. */
export function createX402EdgeEndpoints(deps: X402EdgeDependencies): Endpoint[] {
  return [
    defineEndpoint({
      method: 'get',
      path: '/x402/fees/tiers',
      operationId: 'listX402FeeTiers',
      tag,
      summary: 'Fees of x402 payments',
      description: 'The rate by the amount of a payment. A fee is taken from the budget of the session.',
      answer: feeTiers,
      errors: ['invalid_request'],
      handle: async () => ({
        data: deps.feeTiers.map(({ fromAmount, rate }) => ({ from_amount: fromAmount, fee_rate: rate })),
      }),
    }),
    defineEndpoint({
      method: 'post',
      path: '/x402/check',
      operationId: 'checkX402Target',
      tag,
      summary: 'Ask what a target wants',
      description:
        'Asks the target as a payment would, and pays nothing: whether it wants a payment, which ways it offers, and which of them this installation could pay. Limits of a session, an agent or its policies are not looked at.',
      body: checkBody,
      answer: checkedTarget,
      errors: ['invalid_request', 'target_unreachable'],
      handle: ({ body }) => checkTarget(deps, body),
    }),
  ];
}
