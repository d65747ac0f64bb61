import { bytesToHex } from 'viem';
import { z } from 'zod';
import { attestShare, checkAttestation, type ShareClaim } from './attestation.ts';
import { peerOf, type SignerContext } from './context.ts';
import { othersThan, PARTIES, type Party } from './parties.ts';
import { Refusal } from './refusal.ts';
import { parseShare } from './shares.ts';
import type { Epoch, EpochFacts } from './store/epochs.ts';

const keyId = z.string().min(1).max(128);
const epoch = z.int().min(1);
const attestations = z
  .array(z.strictObject({ party: z.literal(PARTIES), attestation: z.string().max(2000) }))
  .length(PARTIES.length);

export const epochsSchema = z.strictObject({ keyId });
export const epochSchema = z.strictObject({ keyId, epoch });
export const attestedEpochSchema = z.strictObject({ keyId, epoch, attestations });

/** What one signer has of one key. */
export interface KeyEpochs {
  /** Oldest first, those whose share opens; none where the key is not in use here. */
  epochs: Epoch[];
  /** False: it signs nothing with the key before the records of the others are merged. */
  hasRecords: boolean;
  /** With whom this signer does not work for this key. */
  banned: Party[];
}

/** Tells how far this signer is with a key. */
export async function showEpochs(
  context: SignerContext,
  { body }: { body: z.infer<typeof epochsSchema> },
): Promise<KeyEpochs> {
  const { keyId } = body;
  const isInUse = context.store.stateOf(keyId) === 'active';
  return {
    epochs: isInUse ? context.store.epochsOf(keyId).filter(({ epoch }) => opens(context, { keyId, epoch })) : [],
    hasRecords: isInUse && context.store.hasRecords(keyId),
    banned: othersThan(context.party).filter((party) => context.store.isBanned({ keyId, party })),
  };
}

/** False for a share that is damaged, or sealed under a key-encryption key that is gone: as good as lost. */
export function opens(context: SignerContext, { keyId, epoch }: { keyId: string; epoch: number }): boolean {
  try {
    parseShare(context.engine, { keyId, stored: context.store.getShare(keyId, epoch) }).free();
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.code === 'share_damaged') return false;
    throw error;
  }
}

/**
 * The new epoch is higher than all that are in use here; and no higher than the time in milliseconds, so that nobody
 * uses the numbers up. @throws Refusal `other_epoch`
 */
export function refuseEpoch(context: SignerContext, { keyId, toEpoch }: { keyId: string; toEpoch: number }): void {
  const [newest = 0] = context.store.activeEpochs(keyId);
  if (toEpoch > newest && toEpoch <= context.now().getTime()) return;
  throw new Refusal(
    'other_epoch',
    `epoch ${toEpoch} cannot follow for key ${keyId}: signer ${context.party} uses epoch ${newest}`,
  );
}

/** Says again that an epoch is stored here, for a run that was interrupted after that. */
export async function attestStoredEpoch(
  context: SignerContext,
  { body }: { body: z.infer<typeof epochSchema> },
): Promise<{ attestation: string }> {
  return { attestation: await attestEpoch(context, { state: 'stored', ...body }) };
}

/**
 * Takes an epoch into use, once all three have attested that they stored it: the coordinator alone cannot say so. The
 * epochs before stay in use. Repeating it changes nothing.
 */
export async function commitEpoch(
  context: SignerContext,
  { body }: { body: z.infer<typeof attestedEpochSchema> },
): Promise<{ attestation: string }> {
  const { keyId, epoch } = body;
  const own = await checkAll(context, { state: 'stored', ...body });
  if (own.state === 'stored') {
    // While the attestations were read another run may have come in between.
    if (!context.store.activateEpoch({ keyId, epoch, sessionId: own.sessionId })) throw hasNot(context, body);
    context.backup.changed(keyId);
    context.log.info({ keyId, epoch }, 'new shares of a key are in use');
  }
  return { attestation: await attestEpoch(context, { state: 'switched', keyId, epoch }) };
}

/**
 * Erases what came before an epoch, once all three have attested that they use it. Sooner, a coordinator could leave
 * three signers of which no two have an epoch in common. Repeating it changes nothing.
 */
export async function finishEpoch(
  context: SignerContext,
  { body }: { body: z.infer<typeof attestedEpochSchema> },
): Promise<object> {
  const { keyId, epoch } = body;
  const own = await checkAll(context, { state: 'switched', ...body });
  if (own.state !== 'active') throw notInUse(context, body);
  await context.backup.keep({ keyId, epoch });
  context.store.eraseEpochsBelow({ keyId, epoch });
  context.backup.changed(keyId);
  context.shares.forget(keyId);
  return {};
}

/** @throws Refusal `other_epoch` where this signer does not have it, or does not use it; `backup_failed` */
export async function attestEpoch(
  context: SignerContext,
  p: { state: ShareClaim['state']; keyId: string; epoch: number },
): Promise<string> {
  const own = factsOf(context, p);
  if (p.state === 'switched' && own.state !== 'active') throw notInUse(context, p);
  if (p.state === 'stored') await context.backup.keep(p);
  return attestShare(context.identity, claimOf(own, { ...p, party: context.party }));
}

/** Insists that both others say of this epoch what is known of it here: same run, same key. */
async function checkAll(
  context: SignerContext,
  p: z.infer<typeof attestedEpochSchema> & { state: ShareClaim['state'] },
): Promise<EpochFacts> {
  const own = factsOf(context, p);
  for (const party of othersThan(context.party)) {
    const attestation = p.attestations.find((a) => a.party === party)?.attestation ?? '';
    await checkAttestation(peerOf(context, party), { attestation, claim: claimOf(own, { ...p, party }) });
  }
  return own;
}

function factsOf(context: SignerContext, p: { keyId: string; epoch: number }): EpochFacts {
  const facts = context.store.stateOf(p.keyId) === 'active' ? context.store.epochFacts(p.keyId, p.epoch) : undefined;
  if (facts) return facts;
  throw hasNot(context, p);
}

function hasNot(context: SignerContext, p: { keyId: string; epoch: number }): Refusal {
  return new Refusal('other_epoch', `signer ${context.party} has no epoch ${p.epoch} of key ${p.keyId}`);
}

function notInUse(context: SignerContext, p: { keyId: string; epoch: number }): Refusal {
  return new Refusal('other_epoch', `signer ${context.party} does not use epoch ${p.epoch} of key ${p.keyId} yet`);
}

function claimOf(
  facts: EpochFacts,
  p: { state: ShareClaim['state']; keyId: string; epoch: number; party: Party },
): ShareClaim {
  return {
    state: p.state,
    key_id: p.keyId,
    epoch: p.epoch,
    session: facts.sessionId,
    party: p.party,
    public_key: bytesToHex(facts.publicKey),
    chain_code: bytesToHex(facts.chainCode),
  };
}
