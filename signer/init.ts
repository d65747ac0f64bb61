// node signer/init.ts --kind signer|coordinator|policy|operator --dir DIR
// Makes the secrets of one process (files with mode 0600) and prints the public halves as one JSON line.
// node signer/init.ts --rotate-kek --dir DIR
// Puts a new key-encryption key on top of a signer's. The running signer takes it up within seconds, and its status
// (npm run signers -- status) says when nothing is sealed under the earlier ones any more, so that they may be taken out.
import { randomBytes } from 'node:crypto';
import { chownSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exportJWK, generateKeyPair } from 'jose';
import { fail, printResult, readCommandLine, wordsOfError } from '../shared/command-line.ts';
import { developmentMark, isDevelopmentSecret } from '../shared/domain/development-mark.ts';
import { KEKS_MAX, parseKeks, readKekFile } from './kek-source.ts';

const KINDS = ['signer', 'coordinator', 'policy', 'operator'] as const;
type Kind = (typeof KINDS)[number];

/** What was made: paths of secret files, and the public identity to tell the others. */
export interface InitResult {
  kind: Kind;
  publicKey: string;
  /** Holds the private key (and, of a signer, also the decryption key). */
  identityFile: string;
  /** Only of a signer: its key-encryption key. Keep a copy elsewhere: without it the shares are lost. */
  kekFile?: string;
}

/** Refuses to overwrite: an identity or KEK that is replaced by mistake is a signer lost. */
function writeSecret(file: string, text: string): string {
  try {
    writeFileSync(file, text, { mode: 0o600, flag: 'wx' });
  } catch (cause) {
    const exists = cause instanceof Error && 'code' in cause && cause.code === 'EEXIST';
    throw new Error(exists ? `${file} exists already and is left as it is` : `${file} cannot be written: ${cause}`, {
      cause,
    });
  }
  return file;
}

async function newPrivateJwk(crv: 'Ed25519' | 'X25519'): Promise<{ kty: string; crv: string; x: string; d: string }> {
  const alg = crv === 'Ed25519' ? 'EdDSA' : 'ECDH-ES';
  const { privateKey } = await generateKeyPair(alg, { crv, extractable: true });
  const { kty, x, d } = await exportJWK(privateKey);
  return { kty: kty!, crv, x: x!, d: d! };
}

/** Makes the secrets of one process in `dir`. @throws Error when one is there already */
export async function initSecrets({ kind, dir }: { kind: Kind; dir: string }): Promise<InitResult> {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const signing = await newPrivateJwk('Ed25519');
  if (kind !== 'signer') {
    const identityFile = writeSecret(join(dir, `${kind}.json`), `${JSON.stringify(signing)}\n`);
    return { kind, publicKey: signing.x, identityFile };
  }
  const encryption = await newPrivateJwk('X25519');
  const identityFile = writeSecret(join(dir, 'identity.json'), `${JSON.stringify({ signing, encryption })}\n`);
  const kekFile = writeSecret(join(dir, 'kek'), `${newKek()}\n`);
  return { kind, publicKey: `${signing.x}.${encryption.x}`, identityFile, kekFile };
}

const newKek = (): string => randomBytes(32).toString('base64');

/**
 * Puts a new key-encryption key before those of a signer. As a whole or not at all: a power cut in between must not lose
 * the keys that were there.
 * @returns ids of all of them, the new one first
 * @throws Error when there is none yet, or too many
 */
export function rotateKek({ dir }: { dir: string }): { kekFile: string; current: string; earlier: string[] } {
  const kekFile = join(dir, 'kek');
  const text = readKekFile(kekFile);
  const earlier = parseKeks({ name: kekFile, text });
  if (earlier.length >= KEKS_MAX) {
    throw new Error(`${kekFile} holds ${earlier.length} keys; take out those that nothing is sealed under any more`);
  }
  // A key for trying out stays one.
  const added = isDevelopmentSecret(text) ? `${newKek()} ${developmentMark}` : newKek();
  rmSync(`${kekFile}.new`, { force: true });
  const { mode, uid, gid } = statSync(kekFile);
  writeFileSync(`${kekFile}.new`, `${added}\n${text}`, { mode: mode & 0o777, flush: true });
  if (process.getuid?.() === 0) chownSync(`${kekFile}.new`, uid, gid);
  renameSync(`${kekFile}.new`, kekFile);
  const [current] = parseKeks({ name: kekFile, text: added });
  return { kekFile, current: current!.id, earlier: earlier.map(({ id }) => id) };
}

const USAGE = `usage: node signer/init.ts --kind ${KINDS.join('|')} --dir DIR [--json]
       node signer/init.ts --rotate-kek --dir DIR [--json]

  Prints what was made, and nothing that is secret. Exit status: 0 done, 1 failed, 2 the command line is wrong.`;

async function main(): Promise<void> {
  const options = { kind: { type: 'string' }, dir: { type: 'string' }, 'rotate-kek': { type: 'boolean' } } as const;
  const values = readCommandLine(USAGE, { options }, (given) => {
    const isKnown = KINDS.some((each) => each === given.kind);
    return given.dir && (given['rotate-kek'] ? given.kind === undefined : isKnown) ? undefined : '';
  });
  const dir = values.dir!;
  const made = values['rotate-kek'] ? rotateKek({ dir }) : await initSecrets({ kind: values.kind as Kind, dir });
  printResult(made, values);
}

if (import.meta.main) {
  main().catch((error: unknown) => fail(`signer init: ${wordsOfError(error)}`));
}
