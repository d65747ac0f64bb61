import type { SignerContext } from './context.ts';
import type { EngineError } from './engine/engine.ts';
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
    context.log.error({ keyId, session, culprit }, 'a signer cheated inside a signed message; the pair is banned');
  }
  throw new Refusal('protocol_fault', `the protocol failed: ${fault.message}`, { culprit, cause: fault });
}
