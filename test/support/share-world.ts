import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createSignerTransport, type SignerPeer, type SignerTransport } from '../../signer/call.ts';
import { createSignerClient, type SignerClient } from '../../signer/client.ts';
import { coordinateRefresh, type RefreshedKey, type RefreshRequest } from '../../signer/coordinate-refresh.ts';
import { coordinateSign, type Signature } from '../../signer/coordinate-sign.ts';
import { parsePublicIdentity } from '../../signer/identity.ts';
import { PARTIES, type Party } from '../../signer/parties.ts';
import { STORE_FILE } from '../../signer/store/database.ts';
import type { Epoch } from '../../signer/store/epochs.ts';
import { signRequestFor, type TestKey } from './payments.ts';
import { startSigners, type TestSigners } from './signers.ts';

export const PAIRS = PARTIES.flatMap((a) => PARTIES.filter((b) => b !== a).map((b) => [a, b] as const));

/** Three signers, asked one by one or by a client, as the coordinator and as the operator. */
export interface ShareWorld {
  signers: TestSigners;
  coordinator: SignerClient;
  operator: SignerClient;
  /** One request to one signer, as the coordinator. */
  transport: SignerTransport;
  operatorTransport: SignerTransport;
  peers: readonly SignerPeer[];
  peer(party: Party): SignerPeer;
  /** A signature over a payment of its own. @throws unless it recovers to the wallet */
  sign(key: TestKey, pair: readonly [Party, Party]): Promise<Signature>;
  /** By all six: every pair, whoever begins. */
  signByEveryPair(key: TestKey): Promise<void>;
  refresh(request: RefreshRequest, transport?: SignerTransport): Promise<RefreshedKey>;
  epochsAt(party: Party, keyId: string): Promise<Epoch[]>;
  /** Which epochs all three have, in words: `2` or, while a run is under way, `1 2?`, a question mark for stored. */
  shape(keyId: string): Promise<string[]>;
  /** Works on a stopped signer's store, and starts the signer again. */
  inStore<T>(party: Party, work: (db: DatabaseSync) => T): Promise<T>;
  /** The sealed share of an epoch as it lies in the store. */
  sealedShare(party: Party, keyId: string): Promise<Buffer>;
  /** True where these bytes are anywhere in a signer's folder. */
  isOnDisk(party: Party, bytes: Buffer): boolean;
  stop(): Promise<void>;
}

export async function startShareWorld(p: Parameters<typeof startSigners>[0] = {}): Promise<ShareWorld> {
  const signers = await startSigners(p);
  const peers: SignerPeer[] = [];
  for (const { party, url, publicKey } of signers.endpoints) {
    peers.push({ party, url, identity: await parsePublicIdentity(publicKey) });
  }
  const peer = (party: Party) => peers.find((candidate) => candidate.party === party)!;
  const now = () => new Date();
  const as = (role: 'coordinator' | 'operator') => ({
    identity: role === 'operator' ? signers.operatorIdentity : signers.coordinatorIdentity,
    role,
    now,
  });
  const transport = createSignerTransport(as('coordinator'));
  const operatorTransport = createSignerTransport(as('operator'));
  const coordinator = createSignerClient({ ...as('coordinator'), signers: signers.endpoints });
  const operator = createSignerClient({ ...as('operator'), signers: signers.endpoints });

  async function sign(key: TestKey, [a, b]: readonly [Party, Party]): Promise<Signature> {
    const request = await signRequestFor(key, { policyKey: signers.policyKey });
    const pair = [peer(a), peer(b)] as const;
    return coordinateSign(transport, { pair, request, timeoutMs: 40_000, signal: AbortSignal.timeout(120_000) });
  }
  async function epochsAt(party: Party, keyId: string): Promise<Epoch[]> {
    for (const signer of await coordinator.status()) {
      if (signer.party !== party) continue;
      if ('error' in signer) throw new Error(signer.error);
      return signer.keys.find((key) => key.keyId === keyId)?.epochs ?? [];
    }
    throw new Error(`no signer ${party}`);
  }

  return {
    signers,
    coordinator,
    operator,
    transport,
    operatorTransport,
    peers,
    peer,
    sign,
    async signByEveryPair(key) {
      for (const pair of PAIRS) await sign(key, pair);
    },
    refresh: (request, by = transport) =>
      coordinateRefresh(by, { ...request, peers, timeoutMs: 45_000, signal: AbortSignal.timeout(110_000) }),
    epochsAt,
    async shape(keyId) {
      const all = await Promise.all(PARTIES.map((party) => epochsAt(party, keyId)));
      return all.map((epochs) =>
        epochs.map(({ epoch, state }) => `${epoch}${state === 'stored' ? '?' : ''}`).join(' '),
      );
    },
    async inStore(party, work) {
      await signers.kill(party);
      const db = new DatabaseSync(join(signers.dataDirOf(party), STORE_FILE));
      try {
        return work(db);
      } finally {
        db.close();
        await signers.restart(party);
      }
    },
    async sealedShare(party, keyId) {
      // The signer has its store for itself: what is read is a copy, with the write-ahead log.
      const copy = mkdtempSync(join(tmpdir(), 'purser-copy-'));
      cpSync(signers.dataDirOf(party), copy, { recursive: true });
      const db = new DatabaseSync(join(copy, STORE_FILE));
      try {
        const row = db.prepare('select sealed_share from shares where key_id = ? order by epoch').get(keyId);
        return Buffer.from((row as { sealed_share: Uint8Array }).sealed_share);
      } finally {
        db.close();
        rmSync(copy, { recursive: true });
      }
    },
    isOnDisk(party, bytes) {
      const dir = signers.dataDirOf(party);
      return readdirSync(dir).some((name) => readFileSync(join(dir, name)).includes(bytes));
    },
    async stop() {
      for (const open of [coordinator, operator, transport, operatorTransport]) open.close();
      await signers.stop();
    },
  };
}

/** A coordinator that is gone from one request on: `isLast` says which; later ones, and aborts, are never sent. */
export function dyingTransport(
  transport: SignerTransport,
  isLast: (call: { peer: SignerPeer; path: string; count: number; body: object }) => 'before' | 'after' | undefined,
): SignerTransport {
  let isDead = false;
  let count = 0;
  const dead = () => new Error('the coordinator is gone');
  return {
    ...transport,
    async call(peer, asked) {
      if (isDead) throw dead();
      const end = isLast({ peer, path: asked.path, count: ++count, body: asked.body });
      if (end === 'before') isDead = true;
      if (isDead) throw dead();
      const answer = transport.call<never>(peer, asked);
      if (end === 'after') isDead = true;
      const result = await answer;
      if (end === 'after') throw dead();
      return result;
    },
  };
}
