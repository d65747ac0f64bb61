import { z } from 'zod';
import type { FreezeState } from '../shared/domain/freeze.ts';
import { FREEZE_ORDER_MAX, FreezeOrderError, verifyFreezeOrder } from '../shared/freeze-order.ts';
import type { SignerContext } from './context.ts';
import type { FreezeStatus, WalletOwner } from './freeze-book.ts';
import { Refusal } from './refusal.ts';

/** An order's version is a time at least: one so far ahead would keep every later order from counting. */
const AHEAD_MS_MAX = 60 * 60 * 1000;
/** Longest reason of an operator, in characters. */
export const FREEZE_REASON_MAX = 200;

export const freezeSchema = z.strictObject({ order: z.string().max(FREEZE_ORDER_MAX) });
export const operatorFreezeSchema = z.strictObject({
  /** Null: the freeze is lifted. */
  reason: z.string().min(1).max(FREEZE_REASON_MAX).nullable(),
});

/**
 * Takes the policy step's word about everything that is frozen; who brings it does not matter. What is older than what is
 * known changes nothing: an order that was recorded and is brought again lifts nothing.
 * @returns the version that counts here now, on disk
 * @throws Refusal `forbidden` where the policy step did not sign it, `malformed`, `freeze_outdated` where the same version
 * said something else before
 */
export async function takeFreeze(
  context: SignerContext,
  { body: { order } }: { body: z.infer<typeof freezeSchema> },
): Promise<{ version: number }> {
  const state = await verifyFreezeOrder(context.policyKey, order).catch((error: unknown) => {
    throw error instanceof FreezeOrderError ? new Refusal('forbidden', error.message, { cause: error }) : error;
  });
  if (state.version > context.now().getTime() + AHEAD_MS_MAX) {
    throw new Refusal(
      'malformed',
      `version ${state.version} is more than an hour ahead of this signer's clock; compare the clocks of database and signer`,
    );
  }
  const known = context.freezes.state();
  if (state.version === known.version && !isSame(state, known)) {
    throw new Refusal(
      'freeze_outdated',
      `version ${state.version} said something else before: freeze or unfreeze again`,
    );
  }
  if (state.version > known.version) {
    context.freezes.take({ state, document: order });
    const { operator: _, ...told } = context.freezes.status();
    context.log.warn(told, 'the policy step said what is frozen');
  }
  return { version: context.freezes.state().version };
}

/**
 * Freezes this signer, or lifts that, as its operator says: for when whoever else could freeze is away, or was taken over.
 * The policy step's orders neither set nor lift it.
 */
export async function setOperatorFreeze(
  context: SignerContext,
  { body: { reason } }: { body: z.infer<typeof operatorFreezeSchema> },
): Promise<FreezeStatus> {
  context.freezes.setOperator(reason);
  context.log.warn({ reason }, reason === null ? 'the operator lifted the freeze' : 'the operator froze this signer');
  return context.freezes.status();
}

/**
 * Asked before anything is computed, and again at the moment in which this signer gives its part away: a run that was
 * begun before a freeze does not end after it.
 * @throws Refusal `frozen`
 */
export function refuseFrozen(context: SignerContext, owner: WalletOwner): void {
  const what = context.freezes.blocking(owner);
  if (what === undefined) return;
  throw new Refusal('frozen', `signer ${context.party} signs nothing new here: ${what}`);
}

const isSame = (a: FreezeState, b: FreezeState) =>
  a.installation === b.installation && sameIds(a.accounts, b.accounts) && sameIds(a.agents, b.agents);
const sameIds = (a: readonly string[], b: readonly string[]) => a.toSorted().join() === b.toSorted().join();
