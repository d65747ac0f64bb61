import type { SignerContext } from './context.ts';
import type { EngineError } from './engine/engine.ts';
import type { Party } from './parties.ts';
import { Refusal } from './refusal.ts';

const isEngineError = (error: unknown): error is EngineError =>
  error instanceof Error && 'kind' in error && 'culprit' in error;

/**
 * Says what an error of the engine means. Only a fault inside a message that its sender signed becomes a ban, and a ban
 * is stored: further runs with a cheat could leak the key bit by bit.
 * @throws always: a Refusal, or the error itself when it is none of the protocol's
 */
export function rethrowEngineFault(
  context: SignerContext,
  p: { keyId: string; session: string; error: unknown },
): never {
  const fault = p.error;
  if (!isEngineError(fault) || fault.kind === 'fatal') throw fault;
  const { kind, culprit } = fault;
  if (kind === 'input') {
    throw new Refusal('bad_message', `the engine refused a message: ${fault.message}`, { culprit, cause: fault });
  }
  if (kind === 'ban' && culprit !== null) {
    context.store.ban({ keyId: p.keyId, party: culprit, reason: fault.message });
    const { keyId, session } = p;
    context.log.error(
      { alert: 'signer_banned', keyId, session, culprit, reason: fault.message },
      `signer ${culprit} cheated inside a message that it signed: signer ${context.party} works with it no more for key ${keyId}`,
    );
  }
  throw new Refusal('protocol_fault', `the protocol failed: ${fault.message}`, { culprit, cause: fault });
}

/**
 * Works on what one party said under its signature, so that what is wrong with it is that party's fault also where the
 * engine names nobody: it knows senders by number only, and of two signers the other one is not named.
 */
export function blaming<T>(party: Party, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (isEngineError(error) && error.kind !== 'fatal') error.culprit ??= party;
    throw error;
  }
}

/**
 * Asked at every step and not only at the first: runs that were open when a party was found cheating would let it try as
 * often as there are runs.
 * @throws Refusal `banned_pair`
 */
export function refuseBanned(context: SignerContext, { keyId, party }: { keyId: string; party: Party }): void {
  if (!context.store.isBanned({ keyId, party })) return;
  throw new Refusal(
    'banned_pair',
    `signer ${context.party} does not work with signer ${party} for key ${keyId}: banned`,
  );
}
