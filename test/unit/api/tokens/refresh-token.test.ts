import { createHash } from 'node:crypto';
import { CompactEncrypt } from 'jose';
import { describe, expect, it } from 'vitest';
import {
  hashRefreshToken,
  isRefreshToken,
  newRefreshToken,
  openSuccessor,
  sealSuccessor,
} from '../../../../api/tokens/refresh-token.ts';

describe('a refresh token', () => {
  const token = newRefreshToken();

  it('has 256 random bits behind a prefix that scanners for secrets can know', () => {
    expect(token).toMatch(/^purser_refresh_[A-Za-z0-9_-]{43}$/);
    expect(newRefreshToken()).not.toBe(token);
    expect(isRefreshToken(token)).toBe(true);
  });

  it.each([
    '',
    'purser_refresh_',
    'x',
    `${'a'.repeat(43)}`,
    `purser_code_${'a'.repeat(43)}`,
    `purser_refresh_${'a'.repeat(44)}`,
  ])('is not %j', (text) => {
    expect(isRefreshToken(text)).toBe(false);
  });

  it('is stored as its SHA-256', () => {
    expect(hashRefreshToken('abc').toString('hex')).toBe(
      'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    );
  });

  it('alone opens its successor; what is stored does not', async () => {
    const successor = newRefreshToken();
    const sealed = await sealSuccessor(successor, { token });
    expect(sealed).not.toContain(successor);
    expect(await openSuccessor(sealed, { token })).toBe(successor);
    await expect(openSuccessor(sealed, { token: newRefreshToken() })).rejects.toThrow();
    // The first character of the tag: of the last one, some bits mean nothing.
    const [tag] = sealed.split('.').slice(-1);
    const altered = `${sealed.slice(0, -tag!.length)}${tag!.startsWith('A') ? 'B' : 'A'}${tag!.slice(1)}`;
    await expect(openSuccessor(altered, { token })).rejects.toThrow();
    // The key is another hash than the one in the table.
    const byHash = await new CompactEncrypt(Buffer.from(successor))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .encrypt(createHash('sha256').update(token).digest());
    await expect(openSuccessor(byHash, { token })).rejects.toThrow();
  });
});
