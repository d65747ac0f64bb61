import type { SignerPeer, SignerTransport } from './call.ts';
import { askAll, insistOnAll, relayRound } from './coordinate-rounds.ts';
import { tellAbort } from './coordinate-sign.ts';
import type { KeyEpochs } from './epoch.ts';
import { RefreshBlocked, SignRefused } from './errors.ts';
import { newSession } from './new-session.ts';
import { PARTIES, type Party, REFRESH_ROUNDS } from './parties.ts';
import { planRefresh, type RefreshPlan } from './plan-refresh.ts';

import type { Outbound } from './rounds.ts';

export interface RefreshRequest {
  keyId: string;
  /** Makes the secrets that pairs hold anew as well, which costs about as much as a new key. Default false. */
  complete?: boolean;
  /** A key whose shares were made at or after that time, in Unix milliseconds, is left alone. Default: none is. */
  olderThanMs?: number;
}

export interface RefreshedKey {
  keyId: string;
  /** The only epoch that any signer now has. */
  epoch: number;
  /** `current`: nothing was to be done. `completed`: a run that had been interrupted was brought to its end. */
  outcome: 'refreshed' | 'completed' | 'current';
}

/** Where to, and how long. */
export interface RefreshReach {
  peers: readonly SignerPeer[];
  /** One request. */
  timeoutMs: number;
  signal: AbortSignal;
}

type Attested = { attestation: string };

/**
 * Gives all three signers new shares of a key: stored by all, then used by all, then the old ones erased by all. What an
 * earlier attempt left unfinished is finished first. May be interrupted anywhere and asked again: at every moment any
 * two signers have an epoch in common.
 * @param p.despiteBans with banned parties too; the signers allow that to the operator only, with `complete`
 * @throws RefreshBlocked, SignRefused (`unknown_key`), RefusedBySigner, NoAnswer
 */
export async function coordinateRefresh(
  transport: SignerTransport,
  p: RefreshReach & RefreshRequest & { despiteBans?: boolean },
): Promise<RefreshedKey> {
  const { keyId, complete = false, olderThanMs } = p;
  const found = await askEpochs(transport, p);
  if (!p.despiteBans) refuseBanned(found, { keyId });
  const plan = planRefresh(found, { complete, olderThanMs });
  switch (plan.kind) {
    case 'current':
      return { keyId, epoch: plan.epoch, outcome: 'current' };
    case 'complete':
      await endRefresh(transport, { ...p, epoch: plan.epoch });
      if (complete && !plan.isComplete) return coordinateRefresh(transport, p);
      return { keyId, epoch: plan.epoch, outcome: 'completed' };
    case 'run':
      await runRefresh(transport, { ...p, ...plan, complete });
      return { keyId, epoch: plan.toEpoch, outcome: 'refreshed' };
    default:
      throw cannotRefresh(plan, { keyId });
  }
}

/** What each signer has of a key. */
export async function askEpochs(
  transport: SignerTransport,
  p: RefreshReach & { keyId: string },
): Promise<Map<Party, KeyEpochs>> {
  const { keyId, timeoutMs, signal } = p;
  const question = { path: '/v1/refresh/epochs', session: newSession(), body: { keyId }, timeoutMs, signal } as const;
  return askAll(p.peers, (peer) => transport.call<KeyEpochs>(peer, question));
}

/**
 * One run among all three, from the first message to the old shares' end.
 * @param p.start asks one signer for its first messages; by default by `/v1/refresh/start`
 */
export async function runRefresh(
  transport: SignerTransport,
  p: RefreshReach & {
    keyId: string;
    fromEpoch: number;
    toEpoch: number;
    complete: boolean;
    session?: string;
    start?: (peer: SignerPeer) => Promise<Outbound>;
  },
): Promise<void> {
  const { peers, keyId, fromEpoch, toEpoch, complete, timeoutMs, signal, session = newSession() } = p;
  const options = { session, timeoutMs, signal };
  const body = { keyId, fromEpoch, toEpoch, complete };
  const start = p.start ?? ((peer) => transport.call<Outbound>(peer, { path: '/v1/refresh/start', body, ...options }));
  const step = { peers, path: '/v1/refresh/step', ...options } as const;
  let stored: Map<Party, Attested>;
  try {
    let outbound = await askAll(peers, start);
    for (let round = 1; round < REFRESH_ROUNDS; round++) {
      outbound = await relayRound<Outbound>(transport, { ...step, round, outbound });
    }
    stored = await relayRound<Attested>(transport, { ...step, round: REFRESH_ROUNDS, outbound });
  } catch (error) {
    for (const peer of peers) tellAbort(transport, { peer, session, timeoutMs });
    throw error;
  }
  await switchTo(transport, { ...p, epoch: toEpoch, stored });
}

/** Brings an epoch that all three have stored to its end. */
export async function endRefresh(
  transport: SignerTransport,
  p: RefreshReach & { keyId: string; epoch: number },
): Promise<void> {
  const { peers, keyId, epoch, timeoutMs, signal } = p;
  const options = { peers, session: newSession(), timeoutMs, signal };
  const attest = { ...options, path: '/v1/refresh/attest', body: { keyId, epoch } } as const;
  await switchTo(transport, { ...p, stored: await insistOnAll<Attested>(transport, attest) });
}

/** All use it once all have stored it, and all erase what came before once all use it. */
async function switchTo(
  transport: SignerTransport,
  p: RefreshReach & { keyId: string; epoch: number; stored: ReadonlyMap<Party, Attested> },
): Promise<void> {
  const { peers, keyId, epoch, timeoutMs, signal } = p;
  const options = { peers, session: newSession(), timeoutMs, signal };
  const said = (by: ReadonlyMap<Party, Attested>) => ({
    keyId,
    epoch,
    attestations: [...by].map(([party, { attestation }]) => ({ party, attestation })),
  });
  const commit = { ...options, path: '/v1/refresh/commit', body: said(p.stored) } as const;
  const switched = await insistOnAll<Attested>(transport, commit);
  const finish = { ...options, path: '/v1/refresh/finish', body: said(switched) } as const;
  await insistOnAll<object>(transport, finish);
}

/** The signers refuse as well; here it is said in one sentence, before anything is computed. */
function refuseBanned(found: ReadonlyMap<Party, KeyEpochs>, { keyId }: { keyId: string }): void {
  const banned = PARTIES.filter((party) => [...found.values()].some((at) => at.banned.includes(party)));
  if (banned.length === 0) return;
  throw new RefreshBlocked({
    keyId,
    reason: 'banned',
    parties: banned,
    message: `key ${keyId} is not refreshed: signer ${banned.join(' and ')} cheated and is banned; look at why, then lift it: npm run signers -- unban --key ${keyId}`,
  });
}

function cannotRefresh(plan: Extract<RefreshPlan, { kind: 'repair' | 'unknown' }>, p: { keyId: string }): Error {
  const { keyId } = p;
  if (plan.kind === 'unknown') {
    return new SignRefused({ reason: 'unknown_key', message: `no signer has a key ${keyId} in use` });
  }
  const { parties } = plan;
  const advice =
    parties.length > 0
      ? `signer ${parties.join(' or ')} does not have the shares that the two others use; give them back: npm run signers -- repair --party ${parties[0]} --key ${keyId}`
      : 'no two signers have shares in common; restore them from their backups';
  return new RefreshBlocked({
    keyId,
    reason: 'repair_needed',
    parties,
    message: `key ${keyId} is not refreshed: ${advice}`,
  });
}
