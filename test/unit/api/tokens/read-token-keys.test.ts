import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportJWK, generateKeyPair } from 'jose';
import { afterAll, describe, expect, it } from 'vitest';
import { maxTokenKeys, readTokenKeys } from '../../../../api/tokens/read-token-keys.ts';

async function newKey(more: Record<string, unknown>) {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  return { ...(await exportJWK(privateKey)), ...more } as Record<string, unknown>;
}

describe('the file of keys for access tokens', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'purser-keys-'));
  const path = join(dir, 'tokens.jwks.json');
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  const read = (content: unknown) => {
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
    return readTokenKeys(path);
  };
  const nowSeconds = Math.floor(Date.now() / 1000);
  const old = await newKey({ kid: 'old', nbf: nowSeconds - 60 });
  const current = await newKey({ kid: 'current', nbf: nowSeconds });
  const coming = await newKey({ kid: 'coming', nbf: nowSeconds + 600 });

  it('has the key sign whose time came last, in whatever order they stand', () => {
    for (const keys of [
      [old, current, coming],
      [coming, old, current],
    ]) {
      const { kid, jwk } = read({ keys }).current();
      expect([kid, jwk.d]).toEqual(['current', current.d]);
    }
  });

  it('has the first of those to come sign where no time has come, as where a clock is late', async () => {
    const later = await newKey({ kid: 'later', nbf: nowSeconds + 1200 });
    expect(read({ keys: [later, coming] }).current().kid).toBe('coming');
  });

  it('has a key without a time sign at any time', () => {
    const { nbf: _, ...timeless } = old;
    expect(read({ keys: [timeless] }).current().kid).toBe('old');
    expect(read({ keys: [timeless, current] }).current().kid).toBe('current');
  });

  it('publishes all of them, and nothing that is private', () => {
    const { keys } = read({ keys: [old, { ...current, note: 'mine' }, coming] }).publicJwks;
    expect(keys.map(({ kid }) => kid)).toEqual(['coming', 'current', 'old']);
    for (const key of keys)
      expect(key).toEqual({
        ...{ kty: 'EC', crv: 'P-256', alg: 'ES256', use: 'sig', kid: expect.any(String) },
        ...{ x: expect.any(String), y: expect.any(String) },
      });
  });

  const { d: _, ...publicOnly } = old;
  it.each<[string, unknown]>([
    ['nothing', ''],
    ['broken JSON', '{'],
    ['a list', '[]'],
    ['no keys', { keys: [] }],
    ['a key of another kind', { keys: [{ kty: 'RSA', kid: '1' }] }],
    ['a key of another curve', { keys: [{ ...old, crv: 'P-384' }] }],
    ['a key without its private half', { keys: [publicOnly] }],
    ['a key without a name', { keys: [{ ...old, kid: undefined }] }],
    ['two keys of one name', { keys: [old, { ...current, kid: 'old' }] }],
    ['a time that is none', { keys: [{ ...old, nbf: 'now' }] }],
    [
      'more keys than are ever needed',
      { keys: Array.from({ length: maxTokenKeys + 1 }, (_, i) => ({ ...old, kid: `${i}` })) },
    ],
  ])('is refused when it holds %s, and what it holds is not repeated', (_what, content) => {
    let said = '';
    try {
      read(content);
    } catch (error) {
      said = (error as Error).message;
    }
    expect(said).toMatch(
      /PURSER_TOKEN_KEYS_FILE: .+ is no JWKS of 1 to 16 private EC keys on P-256, each with a kid of its own/,
    );
    expect(said).not.toContain(old.d);
  });

  it('is refused when it is not there', () => {
    expect(() => readTokenKeys(join(dir, 'none'))).toThrow(/cannot be read: ENOENT\./);
  });
});
