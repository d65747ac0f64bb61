import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JSONWebKeySet, JWK } from 'jose';
import { readWebhookKeys, readWebhookPublicKey } from '../../shared/webhook-keys.ts';
import { initWebhookKeys } from '../../worker/init-webhook-keys.ts';

/** A pair for secrets of webhooks. */
export interface TestWebhookKeys {
  /** For processes that read it themselves, api and worker. */
  readonly env: { readonly PURSER_WEBHOOK_PUBLIC_KEY_FILE: string; readonly PURSER_WEBHOOK_KEYS_FILE: string };
  readonly publicJwk: JWK;
  readonly jwks: JSONWebKeySet;
}

let made: Promise<TestWebhookKeys> | undefined;

/** One pair for all tests of a process; its files go when the process does. */
export function testWebhookKeys(): Promise<TestWebhookKeys> {
  made ??= make();
  return made;
}

async function make(): Promise<TestWebhookKeys> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-webhook-keys-'));
  process.once('exit', () => rmSync(dir, { recursive: true, force: true }));
  const files = { keysFile: join(dir, 'webhooks.jwks.json'), publicKeyFile: join(dir, 'webhooks-public.json') };
  await initWebhookKeys(files);
  return {
    env: { PURSER_WEBHOOK_PUBLIC_KEY_FILE: files.publicKeyFile, PURSER_WEBHOOK_KEYS_FILE: files.keysFile },
    publicJwk: readWebhookPublicKey(files.publicKeyFile),
    jwks: readWebhookKeys(files.keysFile),
  };
}
