// node api/init-token-keys.ts --keys FILE [--rotate [--in SECONDS]]
// Makes the key that signs access tokens (JWKS, mode 0600), for the api processes. With --rotate a new one is put beside
// those that are there, and signs in ten minutes (--in): by then every process has it, and whoever keeps a copy of
// /.well-known/jwks.json as well. Keys by which no token can be signed any more are taken out. Nothing has to be started anew.
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from 'jose';
import { fail, printResult, readCommandLine, wordsOfError } from '../shared/command-line.ts';
import { maxTokenKeys, readPrivateTokenKeys } from './tokens/read-token-keys.ts';
import { keysStillNeeded } from './tokens/rotate-keys.ts';

/** Seconds until a new key signs, unless told otherwise. */
const defaultInSeconds = 600;

/** Makes the file. @throws Error when it is there already */
export async function initTokenKeys({ keysFile }: { keysFile: string }): Promise<void> {
  if (existsSync(keysFile)) throw new Error(`${keysFile} exists already and is left as it is`);
  write(keysFile, { keys: [await newPrivateJwk({ inSeconds: 0 })] });
}

/** Puts a new key into the file and takes out what is not needed any more. @throws Error when there is no such file */
export async function rotateTokenKeys({
  keysFile,
  inSeconds = defaultInSeconds,
}: {
  keysFile: string;
  inSeconds?: number;
}): Promise<void> {
  const kept = keysStillNeeded(readPrivateTokenKeys(keysFile), { nowSeconds: Date.now() / 1000 });
  if (kept.length >= maxTokenKeys)
    throw new Error(`${keysFile} holds ${kept.length} keys whose tokens may not have expired: rotate in an hour again`);
  write(keysFile, { keys: [await newPrivateJwk({ inSeconds }), ...kept] });
}

async function newPrivateJwk({ inSeconds }: { inSeconds: number }): Promise<JWK & { nbf: number }> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const jwk = (await exportJWK(privateKey)) as Record<'kty' | 'crv' | 'x' | 'y' | 'd', string>;
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), nbf: Math.floor(Date.now() / 1000) + inSeconds };
}

/** As a whole or not at all: a power cut in between must not lose the keys that were there. */
function write(file: string, content: unknown): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  rmSync(`${file}.new`, { force: true });
  writeFileSync(`${file}.new`, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(`${file}.new`, file);
}

async function main(): Promise<void> {
  const options = { keys: { type: 'string' }, rotate: { type: 'boolean' }, in: { type: 'string' } } as const;
  const usage = 'usage: node api/init-token-keys.ts --keys FILE [--rotate [--in SECONDS]] [--json]';
  const values = readCommandLine(usage, { options }, (asked) => {
    const isIn = asked.in === undefined || (asked.rotate === true && /^\d{1,6}$/.test(asked.in));
    return asked.keys && isIn ? undefined : '';
  });
  const { rotate = false, in: given } = values;
  const keysFile = values.keys!;
  if (!rotate) await initTokenKeys({ keysFile });
  else await rotateTokenKeys({ keysFile, ...(given !== undefined && { inSeconds: Number(given) }) });
  const keys = readPrivateTokenKeys(keysFile).map(({ kid }) => kid);
  printResult({ keys_file: keysFile, rotated: rotate, keys }, values);
}

if (import.meta.main) {
  main().catch((error: unknown) => fail(`token keys: ${wordsOfError(error)}`));
}
