import { z } from 'zod';
import type { SignerContext } from './context.ts';
import { PARTIES } from './parties.ts';
import { Refusal } from './refusal.ts';

export const unbanSchema = z.strictObject({
  keyId: z.string().min(1).max(128),
  party: z.literal(PARTIES),
  /** The only epoch of the key, by a complete refresh that began after the ban. */
  epoch: z.int().min(1),
});

/**
 * Works with a banned party again. What it learned by cheating is about secrets that pairs held then, so there must be
 * none left: neither the share of that time nor one that came out of it by an ordinary refresh.
 */
export async function unban(
  context: SignerContext,
  { body }: { body: z.infer<typeof unbanSchema> },
): Promise<{ lifted: boolean }> {
  const { keyId, party, epoch } = body;
  const ban = context.store.banOf({ keyId, party });
  if (!ban) return { lifted: false };
  const [only, ...others] = context.store.epochsOf(keyId);
  const isRenewed =
    others.length === 0 &&
    only?.epoch === epoch &&
    only.state === 'active' &&
    only.complete &&
    only.createdAtMs > ban.atMs;
  if (!isRenewed) {
    throw new Refusal(
      'banned_pair',
      `signer ${party} stays banned for key ${keyId}: a complete refresh after the ban must have ended first`,
    );
  }
  context.store.liftBan({ keyId, party });
  const { reason, atMs } = ban;
  context.log.warn(
    { keyId, party, epoch, reason, bannedAt: new Date(atMs) },
    `signer ${context.party} works with signer ${party} again, as the operator said`,
  );
  return { lifted: true };
}
