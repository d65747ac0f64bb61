// node worker/init-webhook-keys.ts --keys FILE --public FILE [--rotate]
// Makes the key pair for secrets of webhooks: FILE of --keys (JWKS, mode 0600) is for the workers that deliver, FILE of
// --public (JWK) for the api. With --rotate a new pair goes first and the old ones stay behind it; then start the workers
// anew, and after them the api. Within a day, every secret is sealed to the new one.
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from 'jose';
import { fail, printResult, readCommandLine, wordsOfError } from '../shared/command-line.ts';
import { maxWebhookKeys, publicHalfOf, readWebhookKeys } from '../shared/webhook-keys.ts';

/** Files of one installation's pair. */
export interface WebhookKeyFiles {
  readonly keysFile: string;
  readonly publicKeyFile: string;
}

/** Makes the pair, or puts a new one first. @throws Error when it is there already, or is not there to be rotated */
export async function initWebhookKeys({
  keysFile,
  publicKeyFile,
  rotate = false,
}: WebhookKeyFiles & { rotate?: boolean }): Promise<void> {
  if (!rotate && existsSync(keysFile)) throw new Error(`${keysFile} exists already and is left as it is`);
  const old = rotate ? readWebhookKeys(keysFile).keys : [];
  if (old.length >= maxWebhookKeys)
    throw new Error(`${keysFile} holds ${old.length} keys: take out those that no secret is sealed to any more`);
  const made = await newPrivateJwk();
  // The private one first: a secret that is sealed to a key that nobody has is lost.
  write(keysFile, { keys: [made, ...old] }, 0o600);
  write(publicKeyFile, publicHalfOf(made), 0o644);
}

async function newPrivateJwk(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('ECDH-ES+A256KW', { crv: 'P-256', extractable: true });
  const { kty, crv, x, y, d } = (await exportJWK(privateKey)) as Record<'kty' | 'crv' | 'x' | 'y' | 'd', string>;
  const jwk = { kty, crv, x, y, d };
  return { ...jwk, kid: await calculateJwkThumbprint(jwk) };
}

/** As a whole or not at all: a power cut in between must not lose the keys that were there. */
function write(file: string, content: unknown, mode: number): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  rmSync(`${file}.new`, { force: true });
  writeFileSync(`${file}.new`, `${JSON.stringify(content, null, 2)}\n`, { mode, flush: true });
  renameSync(`${file}.new`, file);
}

async function main(): Promise<void> {
  const options = { keys: { type: 'string' }, public: { type: 'string' }, rotate: { type: 'boolean' } } as const;
  const usage = 'usage: node worker/init-webhook-keys.ts --keys FILE --public FILE [--rotate] [--json]';
  const values = readCommandLine(usage, { options }, (asked) => (asked.keys && asked.public ? undefined : ''));
  const [keysFile, publicKeyFile, rotate] = [values.keys!, values.public!, values.rotate ?? false];
  await initWebhookKeys({ keysFile, publicKeyFile, rotate });
  const keys = readWebhookKeys(keysFile).keys.map(({ kid }) => kid);
  printResult({ keys_file: keysFile, public_key_file: publicKeyFile, rotated: rotate, keys }, values);
}

if (import.meta.main) {
  main().catch((error: unknown) => fail(`webhook keys: ${wordsOfError(error)}`));
}
