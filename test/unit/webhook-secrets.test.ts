import { calculateJwkThumbprint, decodeProtectedHeader, exportJWK, generateKeyPair, type JWK } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import { publicHalfOf } from '../../shared/webhook-keys.ts';
import { createSecretOpener, createSecretSealer, SecretNotOpened } from '../../shared/webhook-secrets.ts';

const secret = 'whsec_c2VjcmV0LW9mLW1vcmUtdGhhbi0yNC1ieXRlcyE=';

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('ECDH-ES+A256KW', { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk) };
}

describe('secrets of webhooks', () => {
  let old: JWK;
  let current: JWK;
  beforeAll(async () => {
    [old, current] = [await newKey(), await newKey()];
  });
  const sealWith = (jwk: JWK) => createSecretSealer({ publicJwk: publicHalfOf(jwk) });

  it('are sealed to a public key, and opened by the private one', async () => {
    const { secret: sealed, keyId } = await sealWith(current)({ secret, webhookId: 'whk_1' });
    expect(keyId).toBe(current.kid);
    expect(sealed.split('.')).toHaveLength(5);
    expect(decodeProtectedHeader(sealed)).toMatchObject({ alg: 'ECDH-ES+A256KW', enc: 'A256GCM', kid: current.kid });
    const opener = createSecretOpener({ jwks: { keys: [current] } });
    expect(await opener.open({ sealed, webhookId: 'whk_1' })).toBe(secret);
  });

  it('are never the same twice, so that equal ones cannot be told', async () => {
    const seal = sealWith(current);
    const [one, two] = [await seal({ secret, webhookId: 'whk_1' }), await seal({ secret, webhookId: 'whk_1' })];
    expect(one.secret).not.toBe(two.secret);
  });

  it('that an older key sealed are opened while that key is kept, and not after', async () => {
    const { secret: sealed } = await sealWith(old)({ secret, webhookId: 'whk_1' });
    const both = createSecretOpener({ jwks: { keys: [current, old] } });
    expect(both.currentKeyId).toBe(current.kid);
    expect(await both.open({ sealed, webhookId: 'whk_1' })).toBe(secret);
    const one = createSecretOpener({ jwks: { keys: [current] } });
    await expect(one.open({ sealed, webhookId: 'whk_1' })).rejects.toThrow(SecretNotOpened);
    await expect(one.open({ sealed, webhookId: 'whk_1' })).rejects.toThrow(/sealed to key ".+", which is not here/);
  });

  it('do not open in the row of another webhook', async () => {
    const { secret: sealed } = await sealWith(current)({ secret, webhookId: 'whk_1' });
    const opener = createSecretOpener({ jwks: { keys: [current] } });
    await expect(opener.open({ sealed, webhookId: 'whk_2' })).rejects.toThrow(/was sealed for another webhook/);
  });

  it('that were changed do not open, in whatever part of them, and the refusal repeats nothing', async () => {
    const { secret: sealed } = await sealWith(current)({ secret, webhookId: 'whk_1' });
    const opener = createSecretOpener({ jwks: { keys: [current] } });
    const parts = sealed.split('.');
    const header = JSON.parse(Buffer.from(parts[0]!, 'base64url').toString());
    const moved = Buffer.from(JSON.stringify({ ...header, webhook: 'whk_2' })).toString('base64url');
    const flip = (part: string) => (part.startsWith('A') ? 'B' : 'A') + part.slice(1);
    const changed = [
      [moved, ...parts.slice(1)],
      ...[1, 2, 3, 4].map((at) => parts.map((part, index) => (index === at ? flip(part) : part))),
      ['x'],
    ].map((each) => each.join('.'));
    for (const each of changed) {
      const error = await opener.open({ sealed: each, webhookId: 'whk_2' }).catch((refused: unknown) => refused);
      expect(error).toBeInstanceOf(SecretNotOpened);
      expect(String(error)).not.toContain(each);
    }
  });

  it('are not opened with the public half', async () => {
    const { secret: sealed } = await sealWith(current)({ secret, webhookId: 'whk_1' });
    const opener = createSecretOpener({ jwks: { keys: [publicHalfOf(current)] } });
    await expect(opener.open({ sealed, webhookId: 'whk_1' })).rejects.toThrow(SecretNotOpened);
  });
});
