import { z } from 'zod';
import type { SignerContext } from './context.ts';
import type { KeyShare } from './engine/engine.ts';
import { type ShareWorker, startShareWorker } from './engine/worker.ts';
import { attestEpoch, refuseEpoch } from './epoch.ts';
import { refuseBanned, rethrowEngineFault } from './fault.ts';
import { othersThan, REFRESH_ROUNDS } from './parties.ts';
import { Refusal } from './refusal.ts';
import { type Outbound, openRound, type roundSchema, sealRound } from './rounds.ts';
import type { Session } from './sessions.ts';
import { parseShare } from './shares.ts';
import type { Role } from './wire.ts';

export const refreshStartSchema = z.strictObject({
  keyId: z.string().min(1).max(128),
  /** One that all three have in use. */
  fromEpoch: z.int().min(1),
  toEpoch: z.int().min(2),
  /** With all secrets that pairs hold, as after a ban or a repair. */
  complete: z.boolean(),
});

/** A run that gives a key new shares: what all three must have been asked alike. */
export interface RefreshRun {
  keyId: string;
  fromEpoch: number;
  toEpoch: number;
  complete: boolean;
}

interface RefreshSession extends Session {
  run: RefreshRun;
  role: Role;
  startedAtMs: number;
  /** The round whose messages are awaited. */
  round: number;
  worker: ShareWorker;
  /** Neither may change. */
  publicKey: Uint8Array;
  chainCode: Uint8Array;
  repaired: { ownerKey: string | null } | undefined;
}

/** Opens the share of `fromEpoch`, and answers the messages of round 1. */
export async function startRefresh(
  context: SignerContext,
  p: { session: string; role: Role; body: z.infer<typeof refreshStartSchema> },
): Promise<Outbound> {
  const { keyId, fromEpoch } = p.body;
  if (context.store.stateOf(keyId) !== 'active') {
    throw new Refusal('unknown_key', `signer ${context.party} has no key ${keyId} in use`);
  }
  const active = context.store.activeEpochs(keyId);
  if (!active.includes(fromEpoch)) {
    const has = active.length > 0 ? `has ${active.join(' and ')}` : 'has none';
    throw new Refusal(
      'other_epoch',
      `signer ${context.party} does not use epoch ${fromEpoch} of key ${keyId}, it ${has}`,
    );
  }
  const share = parseShare(context.engine, { keyId, stored: context.store.getShare(keyId, fromEpoch) });
  return openRefresh(context, { session: p.session, role: p.role, run: p.body, share });
}

/**
 * Begins this signer's part of a run. A run of the same key that is under way ends: whoever led it is gone.
 * @param p.share is freed
 * @param p.repaired the share is one that the two others gave back
 * @throws Refusal `banned_pair`, `other_epoch`, `busy`, `bad_message`
 */
export async function openRefresh(
  context: SignerContext,
  p: { session: string; role: Role; run: RefreshRun; share: KeyShare; repaired?: { ownerKey: string | null } },
): Promise<Outbound> {
  const { session, role, run, share, repaired } = p;
  try {
    refuseBannedRefresh(context, { run, role });
    refuseEpoch(context, run);
    context.sessions.open({ id: session, kind: 'refresh', about: run.keyId });
    const worker = startShareWorker({
      kind: run.complete ? 'complete-refresh' : 'refresh',
      build: context.engineChoice,
      sessionId: Buffer.from(session, 'hex'),
      share: share.toBytes(),
    });
    const { publicKey, chainCode } = share;
    const state: RefreshSession = {
      run,
      role,
      startedAtMs: context.now().getTime(),
      round: 1,
      worker,
      publicKey,
      chainCode,
      repaired,
      close: () => void worker.close(),
    };
    return await guard(context, { session, state }, async () => {
      const answer = await sealRound(context, { ...place(session, run), round: 1, batch: await worker.start() });
      context.sessions.park(session, state);
      return answer;
    });
  } finally {
    share.free();
  }
}

/** Takes the messages of one round; answers those of the next, or that the new share is stored. */
export async function stepRefresh(
  context: SignerContext,
  p: { session: string; body: z.infer<typeof roundSchema> },
): Promise<Outbound | { attestation: string }> {
  const { session, body } = p;
  const state = context.sessions.take(session, 'refresh') as RefreshSession;
  return guard(context, { session, state }, async () => {
    if (state.round !== body.round) {
      throw new Refusal('bad_message', `round ${body.round} was sent, round ${state.round} is awaited`);
    }
    refuseBannedRefresh(context, state);
    const batch = await state.worker.step(await openRound(context, { ...place(session, state.run), ...body }));
    if (body.round === REFRESH_ROUNDS) return store(context, { session, state });
    state.round += 1;
    const answer = await sealRound(context, { ...place(session, state.run), round: state.round, batch });
    context.sessions.park(session, state);
    return answer;
  });
}

/** A party that cheated takes part in a complete refresh only, and only when an operator asks: nothing old is used in it. */
function refuseBannedRefresh(context: SignerContext, p: { run: RefreshRun; role: Role }): void {
  if (p.run.complete && p.role === 'operator') return;
  for (const party of othersThan(context.party)) refuseBanned(context, { keyId: p.run.keyId, party });
}

const place = (session: string, run: RefreshRun) => {
  const { keyId, fromEpoch, toEpoch, complete } = run;
  const kind = complete ? 'complete refresh' : 'refresh';
  return { session, protocol: 'refresh', subject: `${kind} of key ${keyId} from ${fromEpoch} to ${toEpoch}` } as const;
};

/** Any error ends the run. What is in use stays in use. */
async function guard<T>(
  context: SignerContext,
  p: { session: string; state: RefreshSession },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    p.state.close();
    rethrowEngineFault(context, { keyId: p.state.run.keyId, session: p.session, error });
  }
}

/** Stores the new share beside the one in use, reads it back, and says so under this signer's name. */
async function store(
  context: SignerContext,
  p: { session: string; state: RefreshSession },
): Promise<{ attestation: string }> {
  const { run, startedAtMs, publicKey, chainCode, repaired } = p.state;
  const { keyId, toEpoch: epoch, complete } = run;
  const bytes = await p.state.worker.takeShare();
  try {
    refuseOtherKey(context, { keyId, bytes, publicKey, chainCode });
    refuseEpoch(context, run);
    const made = { sessionId: p.session, atMs: startedAtMs, share: bytes, publicKey, chainCode };
    context.store.putEpoch({ keyId, epoch, complete, repaired, ...made });
  } finally {
    bytes.fill(0);
  }
  parseShare(context.engine, { keyId, stored: context.store.getShare(keyId, epoch) }).free();
  const attestation = await attestEpoch(context, { state: 'stored', keyId, epoch });
  context.sessions.park(p.session, { close: () => undefined });
  context.sessions.end(p.session);
  return { attestation };
}

/** The addresses hang on public key and chain code: what comes out with another one is never stored. */
function refuseOtherKey(
  context: SignerContext,
  p: { keyId: string; bytes: Uint8Array; publicKey: Uint8Array; chainCode: Uint8Array },
): void {
  const fresh = context.engine.KeyShare.fromBytes(p.bytes);
  try {
    const same = Buffer.from(fresh.publicKey).equals(p.publicKey) && Buffer.from(fresh.chainCode).equals(p.chainCode);
    if (same && fresh.party === context.party && !fresh.isHollow) return;
    throw new Refusal('protocol_fault', `the refresh of key ${p.keyId} did not come out as a share of the same key`);
  } finally {
    fresh.free();
  }
}
