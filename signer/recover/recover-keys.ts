import { readBackup } from '../backup/read.ts';
import type { Party } from '../parties.ts';
import { combineShares } from './combine.ts';
import { type KeySharePoint, readKeySharePoint } from './key-share.ts';

/** One epoch of a key in one backup. */
interface EpochShare {
  epoch: number;
  sessionId: string;
  createdAtMs: number;
  publicKey: Uint8Array;
  chainCode: Uint8Array;
  /** Undefined: the bytes are no share of the engine's version. */
  point: KeySharePoint | undefined;
}

/** What one backup has of each key. */
export interface BackupShares {
  file: string;
  party: Party;
  writtenAtMs: number;
  keys: ReadonlyMap<string, EpochShare[]>;
}

/** An account's key, whole. */
export interface RecoveredKey {
  keyId: string;
  epoch: number;
  publicKey: Uint8Array;
  chainCode: Uint8Array;
  /** 32 bytes, secret: clear them after use. */
  privateKey: Uint8Array<ArrayBuffer>;
}

/** A key that these backups do not give, and which would. */
export interface UnrecoveredKey {
  keyId: string;
  reason: string;
}

/** Reads the shares of one backup. @throws BackupError */
export async function readBackupShares(p: { file: string; identities: readonly string[] }): Promise<BackupShares> {
  const keys = new Map<string, EpochShare[]>();
  let party: Party | undefined;
  const { writtenAtMs } = await readBackup({
    ...p,
    // Checked by what comes out of two of them: the public key of the wallets.
    verificationKey: undefined,
    onFrame(frame) {
      party = frame.party;
      if (frame.kind !== 'key') return;
      keys.set(
        frame.keyId,
        frame.shares.map((row) => {
          const share = row.share as Uint8Array;
          try {
            return {
              epoch: row.epoch as number,
              sessionId: row.session_id as string,
              createdAtMs: row.created_at_ms as number,
              publicKey: Uint8Array.from(row.public_key as Uint8Array),
              chainCode: Uint8Array.from(row.chain_code as Uint8Array),
              point: readPoint(share),
            };
          } finally {
            share.fill(0);
          }
        }),
      );
    },
  });
  return { file: p.file, party: party!, writtenAtMs, keys };
}

function readPoint(share: Uint8Array): KeySharePoint | undefined {
  try {
    return readKeySharePoint(share);
  } catch {
    return undefined;
  }
}

/**
 * Puts every key together that two backups of different signers have shares of the same epoch of, the newest such epoch.
 * Which epoch does not matter to the key: a refresh changes all shares and leaves the key as it is.
 * @throws Error when both are of one signer
 */
export function recoverKeys(backups: readonly [BackupShares, BackupShares]): {
  recovered: RecoveredKey[];
  unrecovered: UnrecoveredKey[];
} {
  const [a, b] = backups;
  if (a.party === b.party) {
    throw new Error(`${a.file} and ${b.file} are both of signer ${a.party}; a key needs backups of two signers`);
  }
  const recovered: RecoveredKey[] = [];
  const unrecovered: UnrecoveredKey[] = [];
  for (const keyId of new Set([...a.keys.keys(), ...b.keys.keys()])) {
    const result = recoverKey(backups, keyId);
    if ('reason' in result) unrecovered.push(result);
    else recovered.push(result);
  }
  return { recovered, unrecovered };
}

function recoverKey([a, b]: readonly [BackupShares, BackupShares], keyId: string): RecoveredKey | UnrecoveredKey {
  const [ofA, ofB] = [a.keys.get(keyId) ?? [], b.keys.get(keyId) ?? []];
  for (const one of ofA.toReversed()) {
    const other = ofB.find(({ epoch, sessionId }) => epoch === one.epoch && sessionId === one.sessionId);
    if (!other) continue;
    if (!one.point || !other.point) return { keyId, reason: 'a share is not one of this version of the engine' };
    if (!Buffer.from(one.chainCode).equals(other.chainCode)) {
      return { keyId, reason: 'the two backups disagree about the chain code; one of them is not what a signer wrote' };
    }
    try {
      const privateKey = combineShares({ shares: [one.point, other.point], publicKey: one.publicKey });
      return { keyId, epoch: one.epoch, publicKey: one.publicKey, chainCode: one.chainCode, privateKey };
    } catch (error) {
      return { keyId, reason: (error as Error).message };
    }
  }
  return { keyId, reason: whichToLookFor({ backup: a, shares: ofA }, { backup: b, shares: ofB }) };
}

interface Side {
  backup: BackupShares;
  shares: EpochShare[];
}

const time = (ms: number): string => new Date(ms).toISOString();

/** Shares of different epochs never fit together: says which backup would. */
function whichToLookFor(a: Side, b: Side): string {
  const newestOf = ({ shares }: Side) => shares.at(-1);
  const [one, other] = [newestOf(a), newestOf(b)];
  if (!one || !other) {
    const [has, lacks] = one ? [a, b] : [b, a];
    const made = newestOf(has)!;
    return `${lacks.backup.file}, written ${time(lacks.backup.writtenAtMs)}, does not have it; look for a backup of signer ${lacks.backup.party} that was written after ${time(made.createdAtMs)}`;
  }
  const [newer, older] = one.createdAtMs > other.createdAtMs ? [a, b] : [b, a];
  const [ahead, behind] = [newestOf(newer)!, newestOf(older)!];
  return (
    `${newer.backup.file} holds epoch ${list(newer)} and ${older.backup.file} epoch ${list(older)}, and shares of different epochs never fit together; ` +
    `look for a backup of signer ${older.backup.party} that was written after ${time(ahead.createdAtMs)}, when epoch ${ahead.epoch} was made, ` +
    `or for one of signer ${newer.backup.party} that was written between ${time(behind.createdAtMs)} and then`
  );
}

const list = ({ shares }: Side): string => shares.map(({ epoch }) => epoch).join(', ');
