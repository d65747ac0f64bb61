import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { initTokenKeys, rotateTokenKeys } from '../../../../api/init-token-keys.ts';
import { maxTokenKeys, type PrivateTokenKey, readPrivateTokenKeys } from '../../../../api/tokens/read-token-keys.ts';
import { keysStillNeeded } from '../../../../api/tokens/rotate-keys.ts';

const lifetimeSeconds = 3600;
const key = (nbf: number): PrivateTokenKey => ({
  ...{ kty: 'EC', crv: 'P-256', x: '', y: '', d: '', kid: `from ${nbf}`, nbf },
});
const needed = (nowSeconds: number, ...from: number[]) =>
  keysStillNeeded(from.map(key), { nowSeconds }).map(({ nbf }) => nbf);

describe('keys that are still needed', () => {
  it('are those that sign, that are to sign, and whose tokens may not have expired', () => {
    expect(needed(0, 0)).toEqual([0]);
    expect(needed(1_000_000, 0)).toEqual([0]);
    expect(needed(10_000, 0, 9_000)).toEqual([9_000, 0]);
    expect(needed(10_000, 0, 10_600)).toEqual([10_600, 0]);
    const over = 9_000 + lifetimeSeconds + 600;
    expect(needed(over, 0, 9_000)).toEqual([9_000, 0]);
    expect(needed(over + 1, 0, 9_000)).toEqual([9_000]);
    expect(needed(over + 1, 5, 0, 9_000)).toEqual([9_000]);
  });

  it('hold every key by which a token is signed that is good, at whatever time keys begin', () => {
    const times = fc.uniqueArray(fc.integer({ min: 0, max: 20_000 }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(times, fc.nat(30_000), fc.nat(lifetimeSeconds), (from, now, ageSeconds) => {
        // A token that is good now was signed so long ago, by the key whose time had come last.
        const signedAt = now - ageSeconds;
        const begun = from.filter((nbf) => nbf <= signedAt);
        const signer = begun.length > 0 ? Math.max(...begun) : Math.min(...from);
        expect(needed(now, ...from)).toContain(signer);
        expect(needed(now, ...from)).toContain(Math.max(...from));
      }),
    );
  });
});

describe('the file of token keys', () => {
  const dir = mkdtempSync(join(tmpdir(), 'purser-rotate-'));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  let files = 0;
  const newFile = async () => {
    files += 1;
    const keysFile = join(dir, `${files}`, 'tokens.jwks.json');
    await initTokenKeys({ keysFile });
    return keysFile;
  };
  const nowSeconds = () => Date.now() / 1000;
  const startEarlier = (keysFile: string, seconds: number) => {
    const keys = readPrivateTokenKeys(keysFile).map((each) => ({ ...each, nbf: each.nbf - seconds }));
    writeFileSync(keysFile, JSON.stringify({ keys }));
  };

  it('is made with one key that signs now, for nobody else to read, and is never replaced', async () => {
    const keysFile = await newFile();
    const [made, ...more] = readPrivateTokenKeys(keysFile);
    expect(more).toEqual([]);
    expect(made!.nbf).toBeLessThanOrEqual(nowSeconds());
    expect(statSync(keysFile).mode & 0o777).toBe(0o600);
    const before = readFileSync(keysFile, 'utf8');
    await expect(initTokenKeys({ keysFile })).rejects.toThrow(/exists already and is left as it is/);
    expect(readFileSync(keysFile, 'utf8')).toBe(before);
  });

  it('is rotated: the new key signs in ten minutes, and the old one stays while its tokens are good', async () => {
    const keysFile = await newFile();
    const [old] = readPrivateTokenKeys(keysFile);
    await rotateTokenKeys({ keysFile });
    const [made, ...kept] = readPrivateTokenKeys(keysFile);
    expect(kept).toEqual([old]);
    expect(made!.nbf - nowSeconds()).toBeGreaterThan(590);
    expect(made!.nbf - nowSeconds()).toBeLessThanOrEqual(600);
    expect(statSync(keysFile).mode & 0o777).toBe(0o600);
    startEarlier(keysFile, 2 * lifetimeSeconds);
    await rotateTokenKeys({ keysFile, inSeconds: 0 });
    expect(readPrivateTokenKeys(keysFile).map(({ kid }) => kid)).toEqual([expect.any(String), made!.kid]);
  });

  it('keeps whatever else is said of a key', async () => {
    const keysFile = await newFile();
    const keys = readPrivateTokenKeys(keysFile).map((each) => ({ ...each, note: 'mine' }));
    writeFileSync(keysFile, JSON.stringify({ keys }));
    await rotateTokenKeys({ keysFile });
    expect(readPrivateTokenKeys(keysFile)).toMatchObject([{ nbf: expect.any(Number) }, { note: 'mine' }]);
  });

  it('is not rotated so often that it would hold more keys than are read', async () => {
    const keysFile = await newFile();
    for (let i = 1; i < maxTokenKeys; i += 1) await rotateTokenKeys({ keysFile });
    const before = readFileSync(keysFile, 'utf8');
    await expect(rotateTokenKeys({ keysFile })).rejects.toThrow(/rotate in an hour again/);
    expect(readFileSync(keysFile, 'utf8')).toBe(before);
  });

  it('cannot be rotated where it is not there, or is none', async () => {
    await expect(rotateTokenKeys({ keysFile: join(dir, 'none') })).rejects.toThrow(/cannot be read: ENOENT/);
    const broken = join(dir, 'broken.json');
    writeFileSync(broken, '{');
    await expect(rotateTokenKeys({ keysFile: broken })).rejects.toThrow(/is no JWKS/);
    expect(readFileSync(broken, 'utf8')).toBe('{');
  });
});
