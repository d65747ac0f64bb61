import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportJWK, generateKeyPair } from 'jose';
import { afterAll, describe, expect, it } from 'vitest';
import { readTokenKeys } from '../../../api/read-token-keys.ts';

describe('the file of public keys for access tokens', () => {
  const dir = mkdtempSync(join(tmpdir(), 'purser-keys-'));
  const path = join(dir, 'jwks.json');
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  const read = (content: unknown) => {
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
    return readTokenKeys(path);
  };

  it('is read', async () => {
    const { publicKey } = await generateKeyPair('ES256');
    const key = { ...(await exportJWK(publicKey)), kid: '1' };
    expect(read({ keys: [key] })).toEqual({ keys: [key] });
  });

  it('is refused with a private key in it, which is not repeated', async () => {
    const { privateKey } = await generateKeyPair('ES256', { extractable: true });
    const key = { ...(await exportJWK(privateKey)), kid: '1' };
    expect(() => read({ keys: [key] })).toThrow(
      `PURSER_DEV_TOKEN_KEYS_FILE: ${path} holds a private key; it must hold public keys only.`,
    );
  });

  it.each(['', '{', '[]', { keys: [] }, { keys: [{ kty: 'RSA', kid: '1' }] }, { keys: [{ kty: 'EC', crv: 'P-256' }] }])(
    'is refused when it holds %j',
    (content) => {
      expect(() => read(content)).toThrow(/is no JWKS of EC keys on P-256, each with a kid\./);
    },
  );

  it('is refused when it is not there', () => {
    expect(() => readTokenKeys(join(dir, 'none'))).toThrow(/cannot be read: ENOENT\./);
  });
});
