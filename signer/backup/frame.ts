import { type Decrypter, Encrypter } from 'age-encryption';
import type { CryptoKey } from 'jose';
import { z } from 'zod';
import type { Party } from '../parties.ts';

/** One frame holds one key with its shares, about 0.1 MB an epoch, or one page of rows. */
const FRAME_BYTES_MAX = 64 * 1024 * 1024;
const SIGNATURE_BYTES = 64;
const LENGTH_BYTES = 4;
/** Nothing that this identity signs elsewhere begins like this: those are JWS. */
const DOMAIN = Buffer.from('purser backup frame, version 1\n');

/** A row as the store has it. */
export type Row = Record<string, string | number | null | Uint8Array>;

/** What one frame says. All frames of a file have one `backup`, and count up from 0. */
export type Frame = { party: Party; backup: string; seq: number; atMs: number } & FrameContent;

export type FrameContent =
  /** First of all; `schema` is the version of the store. */
  | { kind: 'begin'; schema: number }
  /** Takes the place of all that stood before about this key. A row of `shares` has the share, unsealed, as `share`. */
  | { kind: 'key'; keyId: string; key: Row; shares: Row[] }
  /** Rows of any other table, or of keys without shares; each takes the place of one with the same primary key. */
  | { kind: 'rows'; table: string; rows: Row[] }
  /** Up to here the file was written in one go; what follows are changes. */
  | { kind: 'end' };

const scalar = z.union([z.string(), z.number(), z.null(), z.strictObject({ at: z.int(), length: z.int() })]);
const packedRow = z.record(z.string(), scalar);
const common = { party: z.literal([1, 2, 3]), backup: z.uuid(), seq: z.int(), atMs: z.int() };
const packedFrame = z.discriminatedUnion('kind', [
  z.strictObject({ ...common, kind: z.literal('begin'), schema: z.int().min(1) }),
  z.strictObject({ ...common, kind: z.literal('key'), keyId: z.string(), key: packedRow, shares: z.array(packedRow) }),
  z.strictObject({ ...common, kind: z.literal('rows'), table: z.string(), rows: z.array(packedRow) }),
  z.strictObject({ ...common, kind: z.literal('end') }),
]);

/** Encrypts to everybody who may restore. @throws Error when one is no age recipient */
export function createEncrypter(recipients: readonly string[]): Encrypter {
  const encrypter = new Encrypter();
  for (const recipient of recipients) encrypter.addRecipient(recipient);
  return encrypter;
}

/**
 * One frame: signed by the signer whose backup it is, then encrypted (age), with its length before it twice, so that a
 * flipped bit in the length is not taken for the end of the file. Clears its own copies of what is secret.
 */
export async function encodeFrame(p: {
  frame: Frame;
  signingKey: CryptoKey;
  encrypter: Encrypter;
}): Promise<Uint8Array> {
  const body = pack(p.frame);
  const signed = Buffer.concat([DOMAIN, body]);
  const signature = Buffer.from(await crypto.subtle.sign('Ed25519', p.signingKey, signed));
  const plain = Buffer.concat([signature, body]);
  try {
    const sealed = await p.encrypter.encrypt(plain);
    const lengths = Buffer.alloc(2 * LENGTH_BYTES);
    lengths.writeUInt32BE(sealed.length, 0);
    lengths.writeUInt32BE(~sealed.length >>> 0, LENGTH_BYTES);
    return Buffer.concat([lengths, sealed]);
  } finally {
    for (const bytes of [body, signed, plain]) bytes.fill(0);
  }
}

/** Bytes before the sealed part of a frame. */
export const FRAME_HEAD_BYTES = 2 * LENGTH_BYTES;

/** @returns the length of the sealed part; undefined when the head is damaged */
export function readFrameLength(head: Uint8Array): number | undefined {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const length = view.getUint32(0);
  const isWhole = view.getUint32(LENGTH_BYTES) === ~length >>> 0 && length <= FRAME_BYTES_MAX;
  return isWhole ? length : undefined;
}

/**
 * Opens the sealed part of a frame.
 * @param p.verificationKey undefined: whoever uses it checks what it holds otherwise
 * @throws Error when it does not decrypt, is not signed by that key, or does not have the shape
 */
export async function decodeFrame(p: {
  sealed: Uint8Array;
  decrypter: Decrypter;
  verificationKey: CryptoKey | undefined;
}): Promise<Frame> {
  const plain = await p.decrypter.decrypt(p.sealed);
  const body = plain.subarray(SIGNATURE_BYTES);
  if (p.verificationKey) {
    const signed = Buffer.concat([DOMAIN, body]);
    const signature = new Uint8Array(plain.subarray(0, SIGNATURE_BYTES));
    const isSigned = await crypto.subtle.verify('Ed25519', p.verificationKey, signature, signed);
    signed.fill(0);
    if (!isSigned) throw new Error('it is not signed by the signer whose backup it should be');
  }
  return unpack(body);
}

/** `length u32 BE | JSON | bytes`: bytes stand behind the JSON, which says where, so that no share is ever a string. */
function pack(frame: Frame): Buffer {
  const blobs: Uint8Array[] = [];
  let at = 0;
  const packRow = (row: Row) =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => {
        if (!(value instanceof Uint8Array)) return [name, value];
        blobs.push(value);
        at += value.length;
        return [name, { at: at - value.length, length: value.length }];
      }),
    );
  let packed: object = frame;
  if (frame.kind === 'rows') packed = { ...frame, rows: frame.rows.map(packRow) };
  if (frame.kind === 'key') packed = { ...frame, key: packRow(frame.key), shares: frame.shares.map(packRow) };
  const json = Buffer.from(JSON.stringify(packed));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(json.length);
  return Buffer.concat([length, json, ...blobs]);
}

function unpack(body: Uint8Array): Frame {
  const jsonEnd = LENGTH_BYTES + new DataView(body.buffer, body.byteOffset, body.byteLength).getUint32(0);
  const parsed = packedFrame.parse(JSON.parse(Buffer.from(body.subarray(LENGTH_BYTES, jsonEnd)).toString('utf8')));
  const blobs = body.subarray(jsonEnd);
  const unpackRow = (row: z.infer<typeof packedRow>): Row =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => {
        const isBytes = value !== null && typeof value === 'object';
        return [name, isBytes ? blobs.subarray(value.at, value.at + value.length) : value];
      }),
    );
  if (parsed.kind === 'rows') return { ...parsed, rows: parsed.rows.map(unpackRow) };
  if (parsed.kind === 'key') return { ...parsed, key: unpackRow(parsed.key), shares: parsed.shares.map(unpackRow) };
  return parsed;
}
