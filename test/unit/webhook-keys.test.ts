import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { maxWebhookKeys, readWebhookKeys, readWebhookPublicKey } from '../../shared/webhook-keys.ts';
import { createSecretOpener, createSecretSealer } from '../../shared/webhook-secrets.ts';
import { initWebhookKeys } from '../../worker/init-webhook-keys.ts';

describe('the keys for secrets of webhooks', () => {
  const root = mkdtempSync(join(tmpdir(), 'purser-webhook-keys-'));
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  let files: { keysFile: string; publicKeyFile: string };
  let count = 0;
  beforeEach(() => {
    count += 1;
    const dir = join(root, String(count));
    files = { keysFile: join(dir, 'workers', 'keys.json'), publicKeyFile: join(dir, 'api', 'public.json') };
  });
  const sealed = (webhookId: string) =>
    createSecretSealer({ publicJwk: readWebhookPublicKey(files.publicKeyFile) })({ secret: 'whsec_x', webhookId });
  const opener = () => createSecretOpener({ jwks: readWebhookKeys(files.keysFile) });

  it('are made once, the private one for its owner only, and never replaced', async () => {
    await initWebhookKeys(files);
    expect(statSync(files.keysFile).mode & 0o777).toBe(0o600);
    const before = readFileSync(files.keysFile, 'utf8');
    await expect(initWebhookKeys(files)).rejects.toThrow(/exists already and is left as it is/);
    expect(readFileSync(files.keysFile, 'utf8')).toBe(before);
    expect(await opener().open({ sealed: (await sealed('whk_1')).secret, webhookId: 'whk_1' })).toBe('whsec_x');
  });

  it('are rotated by a new one in front: what was sealed before still opens, what comes is sealed to the new one', async () => {
    await initWebhookKeys(files);
    const before = await sealed('whk_1');
    await initWebhookKeys({ ...files, rotate: true });
    const after = await sealed('whk_1');
    expect(after.keyId).not.toBe(before.keyId);
    expect(opener().currentKeyId).toBe(after.keyId);
    for (const { secret } of [before, after])
      expect(await opener().open({ sealed: secret, webhookId: 'whk_1' })).toBe('whsec_x');
    expect(statSync(files.keysFile).mode & 0o777).toBe(0o600);
  });

  it('are not rotated where there are none, or where nobody takes old ones out', async () => {
    await expect(initWebhookKeys({ ...files, rotate: true })).rejects.toThrow(/cannot be read: ENOENT/);
    await initWebhookKeys(files);
    for (let i = 1; i < maxWebhookKeys; i += 1) await initWebhookKeys({ ...files, rotate: true });
    await expect(initWebhookKeys({ ...files, rotate: true })).rejects.toThrow(/holds 16 keys: take out those/);
    expect(readWebhookKeys(files.keysFile).keys).toHaveLength(maxWebhookKeys);
  });

  it('are refused by their variable, and without repeating them: the private half at the api, what is none, what is not there', async () => {
    await initWebhookKeys(files);
    const [key] = readWebhookKeys(files.keysFile).keys;
    const file = join(root, 'given.json');
    const readPublic = (content: string) => {
      writeFileSync(file, content);
      return () => readWebhookPublicKey(file);
    };
    const readPrivate = (content: string) => {
      writeFileSync(file, content);
      return () => readWebhookKeys(file);
    };
    expect(readPublic(JSON.stringify(key))).toThrow(/PURSER_WEBHOOK_PUBLIC_KEY_FILE: .* holds a private key/);
    expect(readPublic(JSON.stringify({ keys: [key] }))).toThrow(/holds a private key/);
    const { d, ...half } = key!;
    for (const content of [
      '',
      '{}',
      '[]',
      JSON.stringify({ ...half, kid: undefined }),
      JSON.stringify({ ...half, y: half.x }),
    ])
      expect(readPublic(content)).toThrow(/PURSER_WEBHOOK_PUBLIC_KEY_FILE: .* is no JWK/);
    for (const keys of [[], [half], [key, key], [{ ...key, y: key!.x }]])
      expect(readPrivate(JSON.stringify({ keys }))).toThrow(/PURSER_WEBHOOK_KEYS_FILE: .* is no JWKS/);
    expect(readPrivate(JSON.stringify(key))).toThrow(/is no JWKS/);
    expect(() => readWebhookPublicKey(join(root, 'none'))).toThrow(/cannot be read: ENOENT\./);
    expect(() => readPrivate(`{"keys":[{"d":"${String(d)}"`)()).toThrow(expect.not.stringContaining(String(d)));
  });
});
