import { randomUUID } from 'node:crypto';
import { type FileHandle, open, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Encrypter } from 'age-encryption';
import type { CryptoKey } from 'jose';
import type { Party } from '../parties.ts';
import { encodeFrame, type FrameContent } from './frame.ts';

export const backupFileName = (party: Party): string => `signer-${party}.backup`;

/** What stands in the first line of every backup, readable for whoever finds one. */
export interface BackupHead {
  party: Party;
  /** Keys in the store when the file was begun. A store only gains keys. */
  keys: number;
  /** Who can open it. */
  recipients: readonly string[];
}

const HEAD_BYTES_MAX = 16 * 1024;

function formatHead({ party, keys, recipients }: BackupHead): string {
  return `purser-backup 1 signer ${party} keys ${keys} for ${recipients.join(' ')}\n`;
}

/** The first line, and how many bytes it has. @throws Error when it is no backup */
export async function readHead(handle: FileHandle): Promise<BackupHead & { bytes: number }> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEAD_BYTES_MAX), 0, HEAD_BYTES_MAX, 0);
  const text = buffer.subarray(0, bytesRead).toString('latin1');
  const found = /^purser-backup 1 signer ([123]) keys (\d+) for (.+)\n/.exec(text);
  if (!found) throw new Error('it does not begin as a backup of a signer');
  const [line, party, keys, recipients] = found;
  return { party: Number(party) as Party, keys: Number(keys), recipients: recipients!.split(' '), bytes: line.length };
}

/**
 * A signer that has lost its store must not put an empty backup in the place of the one that could bring it back.
 * @throws Error that says what to do with the file that is there
 */
async function requireReplaceable(file: string, own: { party: Party; keys: number }): Promise<void> {
  const handle = await open(file, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (!handle) return;
  const found = await readHead(handle)
    .catch((error: Error) => {
      throw new Error(`${error.message}; move it away`);
    })
    .finally(() => handle.close());
  if (found.party !== own.party) throw new Error(`it is the backup of signer ${found.party}; move it away`);
  if (found.keys <= own.keys) return;
  throw new Error(
    `it holds ${found.keys} keys, the store has ${own.keys}; restore from it, or move it away if the store is right`,
  );
}

/** One backup file as it is being written. */
export interface BackupFile {
  readonly bytes: number;
  /** Durable on return. @returns bytes that it took */
  append(content: FrameContent, o?: { isDurable?: boolean }): Promise<number>;
  sync(): Promise<void>;
  /** False when somebody took the file away, or changed it. */
  isIntact(): Promise<boolean>;
  /** Puts it in the place of the one before. Durable on return. */
  publish(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Begins a new file beside the one in use, which stays as it is until this one is published.
 * @throws Error when the one in use must not be replaced
 */
export async function createBackupFile(p: {
  dir: string;
  party: Party;
  /** Keys in the store. */
  keys: number;
  recipients: readonly string[];
  encrypter: Encrypter;
  signingKey: CryptoKey;
  now: () => Date;
}): Promise<BackupFile> {
  const file = join(p.dir, backupFileName(p.party));
  await requireReplaceable(file, p);
  const backup = randomUUID();
  const handle: FileHandle = await open(`${file}.new`, 'w', 0o600);
  const head = Buffer.from(formatHead(p));
  let bytes = 0;
  let seq = 0;

  async function write(data: Uint8Array): Promise<void> {
    for (let at = 0; at < data.length; ) {
      const { bytesWritten } = await handle.write(data, at, data.length - at, bytes + at);
      at += bytesWritten;
    }
    bytes += data.length;
  }

  try {
    await write(head);
  } catch (error) {
    await handle.close();
    throw error;
  }
  return {
    get bytes() {
      return bytes;
    },
    async append(content, { isDurable = true } = {}) {
      const frame = { ...content, party: p.party, backup, seq, atMs: p.now().getTime() };
      const encoded = await encodeFrame({ frame, signingKey: p.signingKey, encrypter: p.encrypter });
      await write(encoded);
      seq += 1;
      if (isDurable) await handle.sync();
      return encoded.length;
    },
    sync: () => handle.sync(),
    async isIntact() {
      const [own, found] = await Promise.all([handle.stat(), stat(file).catch(() => undefined)]);
      return found !== undefined && found.ino === own.ino && found.dev === own.dev && found.size === bytes;
    },
    async publish() {
      await handle.sync();
      await rename(`${file}.new`, file);
      const dir = await open(dirname(file));
      await dir.sync().finally(() => dir.close());
    },
    close: () => handle.close(),
  };
}
