// node api/init-token-keys.ts --keys FILE
// Makes the key that signs access tokens (JWKS, mode 0600), for the api processes.
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from 'jose';

/** Makes the file. @throws Error when it is there already */
export async function initTokenKeys({ keysFile }: { keysFile: string }): Promise<void> {
  if (existsSync(keysFile)) throw new Error(`${keysFile} exists already and is left as it is`);
  write(keysFile, { keys: [await newPrivateJwk()] });
}

async function newPrivateJwk(): Promise<JWK & { nbf: number }> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const jwk = (await exportJWK(privateKey)) as Record<'kty' | 'crv' | 'x' | 'y' | 'd', string>;
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), nbf: Math.floor(Date.now() / 1000) };
}

/** As a whole or not at all: a power cut in between must not lose the keys that were there. */
function write(file: string, content: unknown): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  rmSync(`${file}.new`, { force: true });
  writeFileSync(`${file}.new`, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(`${file}.new`, file);
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { keys: { type: 'string' } } });
  if (!values.keys) throw new Error('usage: node api/init-token-keys.ts --keys FILE');
  await initTokenKeys({ keysFile: values.keys });
}

if (import.meta.main) {
  main().catch((error: unknown) => {
    console.error(`token keys: ${error instanceof Error ? error.message : error}`);
    process.exit(1);
  });
}
