import type { SignerPeer, SignerTransport } from './call.ts';
import { askEpochs, coordinateRefresh, endRefresh, type RefreshReach, runRefresh } from './coordinate-refresh.ts';
import { askAll } from './coordinate-rounds.ts';
import type { KeyEpochs } from './epoch.ts';
import { RefreshBlocked, SignRefused } from './errors.ts';
import { newSession } from './new-session.ts';
import type { Party } from './parties.ts';
import { commonEpoch, planRefresh } from './plan-refresh.ts';
import type { Outbound } from './rounds.ts';

export interface RepairedKey {
  keyId: string;
  epoch: number;
  /** `current`: the signer has what the others have. */
  outcome: 'repaired' | 'completed' | 'current';
  /** False: it signs nothing with the key before the records of the others are merged. */
  hasRecords: boolean;
}

export interface RepairRequest {
  keyId: string;
  /** Who lost its share. */
  party: Party;
}

/**
 * Gives one signer a share of a key again, by the two others and a complete refresh of all three; for the operator. The
 * signer signs nothing before it has the records of the others.
 * @throws RefreshBlocked, RefusedBySigner, NoAnswer
 */
export async function coordinateRepair(
  transport: SignerTransport,
  p: RefreshReach & RepairRequest,
): Promise<RepairedKey> {
  const { keyId, party } = p;
  const found = await askEpochs(transport, p);
  const plan = planRefresh(found, { complete: false, olderThanMs: 0 });
  const hasRecords = found.get(party)?.hasRecords ?? false;
  if (plan.kind === 'unknown') throw new SignRefused({ reason: 'unknown_key', message: `no signer has key ${keyId}` });
  if (plan.kind === 'complete') {
    await endRefresh(transport, { ...p, epoch: plan.epoch });
    return { keyId, epoch: plan.epoch, outcome: 'completed', hasRecords };
  }
  const current = commonEpoch([...found.values()].map(({ epochs }) => epochs));
  if (current !== undefined) return { keyId, epoch: current, outcome: 'current', hasRecords };
  const epoch = await runRepair(transport, { ...p, found });
  return { keyId, epoch, outcome: 'repaired', hasRecords: false };
}

async function runRepair(
  transport: SignerTransport,
  p: RefreshReach & { keyId: string; party: Party; found: ReadonlyMap<Party, KeyEpochs> },
): Promise<number> {
  const { peers, keyId, party, timeoutMs, signal } = p;
  const helpers = peers.filter((peer) => peer.party !== party);
  const fromEpoch = commonEpoch(helpers.map((peer) => p.found.get(peer.party)?.epochs ?? []));
  if (fromEpoch === undefined) throw noHelp({ keyId, party });
  const inUse = [...p.found.values()].flatMap(({ epochs }) => epochs.filter(({ state }) => state === 'active'));
  const toEpoch = Math.max(...inUse.map(({ epoch }) => epoch)) + 1;
  const session = newSession();
  const options = { session, timeoutMs, signal };
  const terms = await askAll(helpers, (peer) => {
    const body = { keyId, epoch: fromEpoch, target: party };
    return transport.call<{ message: string }>(peer, { path: '/v1/repair/term', body, ...options });
  });
  const messages = [...terms].map(([from, { message }]) => ({ from, message }));
  const start = (peer: SignerPeer) => {
    const isTarget = peer.party === party;
    const path = isTarget ? '/v1/repair/start' : '/v1/refresh/start';
    const body = { keyId, fromEpoch, toEpoch, ...(isTarget ? { messages } : { complete: true }) };
    return transport.call<Outbound>(peer, { path, body, ...options });
  };
  await runRefresh(transport, { ...p, fromEpoch, toEpoch, complete: true, session, start });
  return toEpoch;
}

function noHelp({ keyId, party }: { keyId: string; party: Party }): RefreshBlocked {
  return new RefreshBlocked({
    keyId,
    reason: 'repair_needed',
    parties: [party],
    message: `key ${keyId} of signer ${party} cannot be repaired: the two others use no epoch in common; restore it from its backup`,
  });
}

export interface LiftedBans {
  keyId: string;
  epoch: number;
  lifted: { by: Party; party: Party }[];
}

/**
 * Lifts all bans of a key, after a complete refresh of it by all three; for the operator.
 * @throws as {@link coordinateRefresh}
 */
export async function coordinateUnban(
  transport: SignerTransport,
  p: RefreshReach & { keyId: string },
): Promise<LiftedBans> {
  const { peers, keyId, timeoutMs, signal } = p;
  const bans = [...(await askEpochs(transport, p))].flatMap(([by, { banned }]) =>
    banned.map((party) => ({ by, party })),
  );
  if (bans.length === 0) return { keyId, epoch: 0, lifted: [] };
  const renew = () => coordinateRefresh(transport, { ...p, complete: true, despiteBans: true });
  const first = await renew();
  // What was brought to its end may have begun before the ban.
  const { epoch } = first.outcome === 'refreshed' ? first : await renew();
  for (const { by, party } of bans) {
    const peer = peers.find((candidate) => candidate.party === by)!;
    const body = { keyId, party, epoch };
    await transport.call<object>(peer, { path: '/v1/unban', session: newSession(), body, timeoutMs, signal });
  }
  return { keyId, epoch, lifted: bans };
}
