import { z } from 'zod';
import type { SignerContext } from './context.ts';
import { LIMITS_DOCUMENT_MAX } from './limits-document.ts';
import { replaceOwnerKey } from './owner-key.ts';
import type { Party } from './parties.ts';
import { Refusal } from './refusal.ts';
import { DAY_MS } from './rolling-day.ts';
import { takeLimits } from './set-limits.ts';

/** Slots whose spending one page holds. */
const PAGE_SLOTS_MAX = 1_000;

/** What a signer that was away, or was restored, must know of the limits of a key; of one peer, page by page. */
export const limitsPageSchema = z.strictObject({
  ownerKey: z.string().max(43).nullable(),
  /** Documents, oldest first. */
  ownerKeyChanges: z.array(z.string().max(2_000)),
  limits: z.array(z.string().max(LIMITS_DOCUMENT_MAX)),
  spending: z.array(
    z.strictObject({
      slot: z.string().max(64),
      wallet: z.string().max(90),
      asset: z.string().max(100),
      amount: z.string().regex(/^(0|[1-9][0-9]{0,79})$/),
      ageMs: z.int(),
    }),
  ),
  /** The next page is after this slot; null: this is the last one. */
  next: z.string().nullable(),
});
export type LimitsPage = z.infer<typeof limitsPageSchema>;

/** One page; documents stand on the first. Of spending, all that bears on the last 24 hours. */
export function limitsPage(context: SignerContext, { keyId, after }: { keyId: string; after: string }): LimitsPage {
  const nowMs = context.now().getTime();
  const rows = context.store.spendingOfKey({ keyId, afterSlot: after, sinceMs: nowMs - DAY_MS, limit: PAGE_SLOTS_MAX });
  const isLast = new Set(rows.map(({ slot }) => slot)).size < PAGE_SLOTS_MAX;
  const isFirst = after === '';
  return {
    ownerKey: context.store.ownerKeyOf(keyId) ?? null,
    ownerKeyChanges: isFirst ? context.store.ownerKeyChanges(keyId).map(({ document }) => document) : [],
    limits: isFirst ? context.store.listLimits(keyId).map(({ document }) => document) : [],
    spending: rows.map(({ slot, wallet, asset, amountMinor, atMs }) => {
      return { slot, wallet, asset, amount: `${amountMinor}`, ageMs: nowMs - atMs };
    }),
    next: isLast ? null : rows.at(-1)!.slot,
  };
}

/**
 * Takes a peer's page. Nothing about limits is taken on the peer's word: changes of the owner's key and limits are
 * verified as if the owner had brought them.
 * @throws Refusal `limits_differ` where the owner's key is not the peer's afterwards, or limits do not verify: an operator
 * registers it here again, or the owner sets limits again
 */
export async function mergeLimits(
  context: SignerContext,
  { keyId, from, page }: { keyId: string; from: Party; page: LimitsPage },
): Promise<void> {
  for (const document of page.ownerKeyChanges) {
    // Those that do not go on from the key that is known here are of before it.
    await replaceOwnerKey(context, { body: { document } }).catch(passRefusals);
  }
  if ((context.store.ownerKeyOf(keyId) ?? null) !== page.ownerKey) {
    throw new Refusal('limits_differ', `signers ${context.party} and ${from} know different owners of key ${keyId}`);
  }
  for (const document of page.limits) {
    await takeLimits(context, { keyId, document }).catch((error: unknown) => {
      if (error instanceof Refusal && error.code === 'limits_outdated') return;
      if (!(error instanceof Refusal)) throw error;
      throw new Refusal('limits_differ', `limits of key ${keyId} that signer ${from} has: ${error.message}`);
    });
  }
  const nowMs = context.now().getTime();
  const knownTo = (1 << (context.party - 1)) | (1 << (from - 1));
  context.store.transaction(() => {
    for (const { amount, ageMs, ...row } of page.spending) {
      context.store.putSpending({ ...row, keyId, amountMinor: BigInt(amount), knownTo, atMs: nowMs - ageMs });
    }
  });
}

function passRefusals(error: unknown): void {
  if (!(error instanceof Refusal)) throw error;
}
