import { type FileHandle, open } from 'node:fs/promises';
import { Decrypter } from 'age-encryption';
import type { CryptoKey } from 'jose';
import { readHead } from './file.ts';
import { decodeFrame, FRAME_HEAD_BYTES, type Frame, readFrameLength } from './frame.ts';

/** What can be known of a backup after all of it was read. */
export interface BackupEnd {
  /** When its last whole frame was written. */
  writtenAtMs: number;
  /** Bytes at its end that are no whole frame: a write that did not come to its end, so nobody relied on it. */
  bytesIgnored: number;
}

/** A backup cannot be used, and why. */
export class BackupError extends Error {
  override readonly name = 'BackupError';
}

/**
 * Reads a backup from its first frame to its last. Frames must be those of one file, in order and without a gap.
 * @param p.identities age identities, `AGE-SECRET-KEY-…`
 * @param p.verificationKey of the signer whose backup it should be; undefined: not checked
 * @throws BackupError of one sentence, at the first frame that is not what was written
 */
export async function readBackup(p: {
  file: string;
  identities: readonly string[];
  verificationKey: CryptoKey | undefined;
  onFrame: (frame: Frame) => Promise<void> | void;
}): Promise<BackupEnd> {
  const handle = await open(p.file, 'r').catch((cause: NodeJS.ErrnoException) => {
    throw new BackupError(`backup ${p.file} cannot be read (${cause.code})`, { cause });
  });
  try {
    return await readFrames(handle, p);
  } finally {
    await handle.close();
  }
}

async function readFrames(handle: FileHandle, p: Parameters<typeof readBackup>[0]): Promise<BackupEnd> {
  const refuse = (why: string, cause?: unknown) => new BackupError(`backup ${p.file}: ${why}`, { cause });
  const head = await readHead(handle).catch((cause: Error) => {
    throw refuse(cause.message, cause);
  });
  const { size } = await handle.stat();
  const decrypter = new Decrypter();
  for (const identity of p.identities) decrypter.addIdentity(identity);
  let at = head.bytes;
  let first: Frame | undefined;
  let last: Frame | undefined;
  let isWhole = false;

  for (let seq = 0; ; seq++) {
    const sealed = await readSealed(handle, { at, size });
    if (sealed === 'damaged') throw refuse(`frame ${seq} is damaged`);
    if (sealed === undefined) break;
    const frame = await decodeFrame({ sealed, decrypter, verificationKey: p.verificationKey }).catch((cause: Error) => {
      if (/no identity matched/.test(cause.message)) {
        throw refuse(`no identity that was given opens it; it is for ${head.recipients.join(' or ')}`, cause);
      }
      throw refuse(`frame ${seq} is damaged, or not what the signer wrote (${cause.message})`, cause);
    });
    first ??= frame;
    if (frame.seq !== seq || frame.backup !== first.backup || frame.party !== head.party) {
      throw refuse(`frame ${seq} is not the one that was written there`);
    }
    if ((frame.kind === 'begin') !== (seq === 0)) throw refuse(`frame ${seq} does not belong there`);
    if (frame.kind === 'end') isWhole = true;
    last = frame;
    await p.onFrame(frame);
    at += FRAME_HEAD_BYTES + sealed.length;
  }
  if (!isWhole || !last) throw refuse('it is cut off before its end');
  return { writtenAtMs: last.atMs, bytesIgnored: size - at };
}

/** @returns the next sealed part; undefined where the file ends, also in the middle of one */
async function readSealed(
  handle: FileHandle,
  { at, size }: { at: number; size: number },
): Promise<Uint8Array | 'damaged' | undefined> {
  if (at + FRAME_HEAD_BYTES > size) return undefined;
  const head = await readBytes(handle, { at, length: FRAME_HEAD_BYTES });
  const length = readFrameLength(head);
  if (length === undefined) return 'damaged';
  if (at + FRAME_HEAD_BYTES + length > size) return undefined;
  return readBytes(handle, { at: at + FRAME_HEAD_BYTES, length });
}

async function readBytes(handle: FileHandle, p: { at: number; length: number }): Promise<Uint8Array> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(p.length), 0, p.length, p.at);
  return buffer.subarray(0, bytesRead);
}
