import type { BackupStatus } from './backup/backup.ts';
import { createSignerTransport, NoAnswer, RefusedBySigner, type SignerPeer, type TraceCall } from './call.ts';
import { coordinateEnd, type EndRequest } from './coordinate-end.ts';
import { coordinateKeygen, type GeneratedKey } from './coordinate-keygen.ts';
import {
  coordinateListPayments,
  coordinateReadKeys,
  coordinateReadPayments,
  type KnownPayment,
  type ListedPayment,
} from './coordinate-list.ts';
import { coordinateMerge, type MergedRecords, type MergeRequest } from './coordinate-records.ts';
import { coordinateRefresh, type RefreshedKey, type RefreshReach, type RefreshRequest } from './coordinate-refresh.ts';
import {
  coordinateRepair,
  coordinateUnban,
  type LiftedBans,
  type RepairedKey,
  type RepairRequest,
} from './coordinate-repair.ts';
import { coordinateSign, type Signature, type SignRequest } from './coordinate-sign.ts';
import { askStatus } from './coordinate-status.ts';
import { SignerFault, SignerUnavailable, SignRefused } from './errors.ts';
import { createSignerHealthRecord } from './health.ts';
import { tryPairs } from './hedge.ts';
import { type CoordinatorIdentity, parsePublicIdentity } from './identity.ts';
import type { KeyRecord } from './list-records.ts';
import { newSession } from './new-session.ts';
import type { OperationPath } from './operations.ts';
import { PARTIES, type Party } from './parties.ts';
import type { SignerStatus } from './status.ts';
import type { Role } from './wire.ts';

export type { KeyRecord, KnownPayment, ListedPayment, Party, TraceCall };

/** One request to a signer, within a signature. */
const SIGN_CALL_TIMEOUT_MS = 5_000;
/** A whole signature, over all pairs that are tried, from when its turn has come. */
const SIGN_TIMEOUT_MS = 20_000;
/** Signatures at once from this process. They compute; more at once only makes each of them look late. */
const SIGNS_MAX = 8;
const SIGNS_WAITING_MAX = 1_000;
/** One request of key generation or refresh: a round computes for seconds, on a busy machine for longer. */
const KEYGEN_CALL_TIMEOUT_MS = 45_000;
const KEYGEN_TIMEOUT_MS = 110_000;
/** Nobody waits for new shares of a key that is there, so a busy machine gets its time. */
const RENEW_CALL_TIMEOUT_MS = 120_000;
const RENEW_TIMEOUT_MS = 240_000;
/** Key generations and refreshes at once from this process; the rest wait. Each fills a core at every signer. */
const KEYGENS_MAX = 1;
const KEYGENS_WAITING_MAX = 100;
const HEALTH_TIMEOUT_MS = 1_000;
const STATUS_TIMEOUT_MS = 10_000;
/** A backup of many keys takes some seconds for each thousand. */
const BACKUP_TIMEOUT_MS = 300_000;

/** Where one signer listens, and its public identity (`<ed25519>.<x25519>`, base64url). */
export interface SignerEndpoint {
  party: Party;
  url: string;
  publicKey: string;
}

interface SignerHealth {
  party: Party;
  ok: boolean;
  error?: string;
  latencyMs: number;
}

/** The coordinator: relays between the signers, holds no share, and checks what comes out. */
export interface SignerClient {
  /** Health of each signer; never throws. */
  health(): Promise<SignerHealth[]>;
  /** What each signer holds, or why it does not say; never throws. */
  status(): Promise<(SignerStatus | { party: Party; error: string })[]>;
  /** Asks each signer for the same; what each answered, or why it did not; never throws. @param p.timeoutMs default 10 s */
  askEach<T extends object>(p: {
    path: OperationPath;
    body: object;
    timeoutMs?: number;
  }): Promise<({ party: Party } & (T | { error: string }))[]>;
  /** Has each signer write its backup anew; what each answered, or why it did not; never throws. */
  backup(): Promise<({ party: Party } & (BackupStatus | { error: string }))[]>;
  /**
   * Distributed key generation among all three. Resolves only after all three have stored and read back their sealed
   * share and agree on public key and chain code. The key id must be fresh: one that was ever used, also in an attempt
   * that failed, is refused, so take a new id for each attempt.
   * @param p.ownerKey Ed25519 public key of who may set limits of the key's wallets (43 characters of base64url)
   * @throws SignerUnavailable, SignRefused (`key_exists`), SignerFault
   */
  generateKey(p: { keyId: string; ownerKey?: string | undefined; signal?: AbortSignal }): Promise<GeneratedKey>;
  /**
   * New shares of a key for all three, of the same key: addresses stay, and what anybody may have copied of the old shares
   * is worth nothing. May be interrupted anywhere and asked again; signatures go on meanwhile.
   * @throws SignerUnavailable (try again), RefreshBlocked (an operator must look), SignRefused (`unknown_key`),
   * SignerFault
   */
  refreshKey(p: RefreshRequest & { signal?: AbortSignal }): Promise<RefreshedKey>;
  /**
   * Gives a signer that lost its share of a key one again. It signs nothing with it before the records of the others are
   * merged. For the operator.
   * @throws SignerUnavailable, RefreshBlocked, SignRefused (`unknown_key`, `key_exists`), SignerFault
   */
  repairKey(p: RepairRequest): Promise<RepairedKey>;
  /**
   * Has a signer told what the two others recorded of a key, and how the owner limited it; then it signs with the key
   * again. Harmless when nothing is missing. For the operator.
   * @throws SignerUnavailable (also while one of the others lacks records itself), SignRefused (`unknown_key`), SignerFault
   */
  mergeRecords(p: MergeRequest): Promise<MergedRecords>;
  /** Works with banned signers again, after new shares for all. For the operator. @throws as `refreshKey` */
  liftBans(p: { keyId: string }): Promise<LiftedBans>;
  /**
   * Signs with any two of the three, and falls over to another pair when one is down or slow. Bounded in time.
   * @throws SignerUnavailable, SignRefused, SignerFault
   */
  sign(p: SignRequest): Promise<Signature>;
  /**
   * Ends a payment that was given a nonce and is not to be made. True: nothing was signed for it, and nothing will be.
   * @throws SignerUnavailable
   */
  endUnsigned(p: EndRequest): Promise<boolean>;
  /**
   * Which payments the signers have signed for since an instant, in no order. Changes nothing.
   * @throws SignerUnavailable unless all three tell
   */
  listPayments(p: { sinceMs: number }): Promise<ListedPayment[]>;
  /**
   * Everything that was ever signed for some payments, 20 at most. Changes nothing.
   * @throws SignerUnavailable unless all three tell
   */
  readPayments(p: { transactionIds: readonly string[] }): Promise<KnownPayment[]>;
  /**
   * What addresses of keys' wallets are derived from, of 100 keys at most that all three have and agree on.
   * @throws SignerUnavailable unless all three tell
   */
  readKeys(p: { keyIds: readonly string[] }): Promise<KeyRecord[]>;
  /** Closes kept-alive connections. */
  close(): void;
}

export interface SignerClientOptions {
  /** All three. */
  signers: readonly SignerEndpoint[];
  identity: CoordinatorIdentity;
  /** As whom the requests are signed; default coordinator. */
  role?: Role;
  /** One request within a signature; default 5 s. A slower signer is left out. */
  signCallTimeoutMs?: number;
  /** Stands around each call, for traces; default: nothing does. */
  trace?: TraceCall | undefined;
}

/** @throws Error unless each party is named once */
export function createSignerClient(o: SignerClientOptions): SignerClient {
  if (
    o.signers
      .map(({ party }) => party)
      .toSorted()
      .join() !== PARTIES.join()
  ) {
    throw new Error(`signers must name each of the parties ${PARTIES.join(', ')} once`);
  }
  const peersReady = parsePeers(o.signers);
  // A bad identity is reported by the first call; here it only must not count as unhandled.
  peersReady.catch(() => undefined);
  const now = () => new Date();
  const transport = createSignerTransport({
    ...{ identity: o.identity, role: o.role ?? 'coordinator', now, trace: o.trace },
  });
  const record = createSignerHealthRecord({ now });
  const keygens = createQueue({ runningMax: KEYGENS_MAX, waitingMax: KEYGENS_WAITING_MAX });
  const signs = createQueue({ runningMax: SIGNS_MAX, waitingMax: SIGNS_WAITING_MAX });
  const signCallTimeoutMs = o.signCallTimeoutMs ?? SIGN_CALL_TIMEOUT_MS;

  /** Looks after signers that failed, beside the work and not before it. */
  async function probe(party: Party): Promise<void> {
    const peers = await peersReady;
    await transport.health(peers.get(party)!, { timeoutMs: HEALTH_TIMEOUT_MS }).then(
      () => record.succeeded(party),
      () => record.failed(party),
    );
  }

  async function health(): Promise<SignerHealth[]> {
    const peers = await peersReady;
    const checks = [...peers.values()].map(async (peer): Promise<SignerHealth> => {
      const { party } = peer;
      const since = performance.now();
      const latencyMs = () => Math.round(performance.now() - since);
      try {
        await transport.health(peer, { timeoutMs: HEALTH_TIMEOUT_MS });
        record.succeeded(party);
        return { party, ok: true, latencyMs: latencyMs() };
      } catch (error) {
        return { party, ok: false, error: (error as Error).message, latencyMs: latencyMs() };
      }
    });
    return Promise.all(checks);
  }

  async function status(): Promise<(SignerStatus | { party: Party; error: string })[]> {
    const peers = [...(await peersReady).values()];
    return Promise.all(
      peers.map((peer) =>
        askStatus(transport, peer).catch((error: Error) => ({ party: peer.party, error: error.message })),
      ),
    );
  }

  async function askEach<T extends object>(asked: {
    path: OperationPath;
    body: object;
    timeoutMs?: number;
  }): Promise<({ party: Party } & (T | { error: string }))[]> {
    const peers = [...(await peersReady).values()];
    const call = { timeoutMs: STATUS_TIMEOUT_MS, ...asked, session: newSession() };
    return Promise.all(
      peers.map((peer) =>
        transport.call<T>(peer, call).then(
          (answer) => ({ party: peer.party, ...answer }),
          (error: Error) => ({ party: peer.party, error: error.message }),
        ),
      ),
    );
  }

  async function backup(): Promise<({ party: Party } & (BackupStatus | { error: string }))[]> {
    const peers = [...(await peersReady).values()];
    const asked = { path: '/v1/backup', session: newSession(), body: {}, timeoutMs: BACKUP_TIMEOUT_MS } as const;
    return Promise.all(
      peers.map((peer) =>
        transport.call<BackupStatus>(peer, asked).then(
          (written) => ({ party: peer.party, ...written }),
          (error: Error) => ({ party: peer.party, error: error.message }),
        ),
      ),
    );
  }

  async function signByAnyPair(request: SignRequest): Promise<Signature> {
    const peers = await peersReady;
    for (const party of record.dueForProbe()) void probe(party);
    return tryPairs({
      transport,
      record,
      attempt: ([a, b], { transport: watched, signal }) =>
        coordinateSign(watched, {
          pair: [peers.get(a)!, peers.get(b)!],
          request,
          timeoutMs: signCallTimeoutMs,
          signal,
        }),
      sort: usableElsewhere,
      signal: AbortSignal.timeout(SIGN_TIMEOUT_MS),
    });
  }

  async function generateKey({ keyId, ownerKey, signal }: Parameters<SignerClient['generateKey']>[0]) {
    return keygens(async () => {
      signal?.throwIfAborted();
      const peers = await peersReady;
      const down = (await health()).filter(({ ok }) => !ok);
      if (down.length > 0) {
        const why = down.map(({ error }) => error).join('; ');
        throw new SignerUnavailable(`a new key needs all three signers: ${why}`);
      }
      const timeout = AbortSignal.timeout(KEYGEN_TIMEOUT_MS);
      const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
      const run = { peers: [...peers.values()], keyId, ownerKey, timeoutMs: KEYGEN_CALL_TIMEOUT_MS, signal: either };
      return coordinateKeygen(transport, run).catch((error: unknown) => {
        throw new SignerUnavailable(`key ${keyId} was not made: ${usableElsewhere(error).message}`, { cause: error });
      });
    });
  }

  /** One run that is about the shares of a key, in its turn. */
  async function renew<T>(
    p: { keyId: string; signal?: AbortSignal | undefined },
    run: (reach: RefreshReach) => Promise<T>,
    failed = 'got no new shares',
  ): Promise<T> {
    return keygens(async () => {
      p.signal?.throwIfAborted();
      const timeout = AbortSignal.timeout(RENEW_TIMEOUT_MS);
      const signal = p.signal ? AbortSignal.any([p.signal, timeout]) : timeout;
      const reach = { peers: [...(await peersReady).values()], timeoutMs: RENEW_CALL_TIMEOUT_MS, signal };
      return run(reach).catch((error: unknown) => {
        const { message } = usableElsewhere(error);
        throw new SignerUnavailable(`key ${p.keyId} ${failed}: ${message}`, { cause: error });
      });
    });
  }

  /** One question about what was signed, to all three. */
  async function reading<T>(ask: (peers: readonly SignerPeer[]) => Promise<T>): Promise<T> {
    return ask([...(await peersReady).values()]).catch((error: unknown) => {
      const { message } = usableElsewhere(error);
      throw new SignerUnavailable(`what was signed is known only with all three signers: ${message}`, { cause: error });
    });
  }

  return {
    health,
    status,
    askEach,
    backup,
    generateKey,
    refreshKey: ({ signal, ...p }) =>
      renew({ ...p, signal }, (reach) => coordinateRefresh(transport, { ...reach, ...p })),
    mergeRecords: (p) => renew(p, (reach) => coordinateMerge(transport, { ...reach, ...p }), 'was told no records'),
    repairKey: (p) => renew(p, (reach) => coordinateRepair(transport, { ...reach, ...p })),
    liftBans: (p) => renew(p, (reach) => coordinateUnban(transport, { ...reach, ...p })),
    endUnsigned: async (request) =>
      coordinateEnd(transport, { peers: [...(await peersReady).values()], request, timeoutMs: signCallTimeoutMs }),
    listPayments: (p) => reading((peers) => coordinateListPayments(transport, { peers, ...p })),
    readKeys: (p) => reading((peers) => coordinateReadKeys(transport, { peers, ...p })),
    readPayments: (p) => reading((peers) => coordinateReadPayments(transport, { peers, ...p })),
    sign: (request) => signs(() => signByAnyPair(request)),
    close: () => transport.close(),
  };
}

async function parsePeers(signers: readonly SignerEndpoint[]): Promise<ReadonlyMap<Party, SignerPeer>> {
  const peers = new Map<Party, SignerPeer>();
  for (const { party, url, publicKey } of signers) {
    peers.set(party, { party, url, identity: await parsePublicIdentity(publicKey) });
  }
  return peers;
}

/**
 * Sorts what went wrong: the payment (SignRefused) and the protocol (SignerFault) are thrown at once; what is only this
 * signer's trouble is returned, because another pair may do better.
 * @throws SignRefused, SignerFault, or what is none of ours
 */
function usableElsewhere(error: unknown): NoAnswer | RefusedBySigner {
  if (error instanceof NoAnswer) return error;
  if (!(error instanceof RefusedBySigner)) throw error;
  const { code, message, party, culprit } = error;
  switch (code) {
    case 'receipt_expired':
    case 'receipt_invalid':
    case 'intent_mismatch':
    case 'unsupported_call':
    case 'slot_taken':
    case 'limit_exceeded':
    case 'frozen':
    case 'unknown_key':
    case 'key_exists':
    case 'malformed':
      throw new SignRefused({ reason: code, message, cause: error });
    case 'bad_message':
    case 'protocol_fault':
    case 'oversize':
    case 'forbidden':
    case 'not_found':
      throw new SignerFault({ message: `signer ${party}: ${message}`, party: culprit, cause: error });
    case 'busy':
    case 'share_damaged':
    case 'banned_pair':
    case 'unknown_session':
    case 'other_epoch':
    case 'records_missing':
    case 'limits_differ':
    case 'limits_outdated':
    case 'freeze_outdated':
    case 'backup_failed':
    case 'unauthenticated':
    case 'replayed':
    case 'internal':
      return error;
    default:
      // Only a signer of a later version says anything else, while versions change: that ends no payment.
      return unheardOf(code, error);
  }
}

/** @param _code none is left: a code that is added has to be sorted above */
function unheardOf(_code: never, error: RefusedBySigner): RefusedBySigner {
  return error;
}

/** Runs a few at a time, in order, and refuses to queue without end. */
function createQueue(p: { runningMax: number; waitingMax: number }): <T>(run: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (run) => {
    if (running >= p.runningMax) {
      if (waiting.length >= p.waitingMax)
        throw new SignerUnavailable(`${p.waitingMax} requests are waiting for the signers already`);
      await new Promise<void>((resolve) => waiting.push(resolve));
    } else running += 1;
    try {
      return await run();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
}
