import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createLocalJWKSet, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { initTokenKeys } from '../../../api/init-token-keys.ts';
import { createAccessTokens } from '../../../api/tokens/access-tokens.ts';
import { readPrivateTokenKeys, readTokenKeys } from '../../../api/tokens/read-token-keys.ts';
import { eventually } from '../../support/client.ts';
import { testIssuer } from '../../support/token-keys.ts';
import { type ApiProcess, startApiProcess } from './api-process.ts';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { isSignedIn, refresherAt, startRefreshing } from './refresh-calls.ts';

const nobody = '127.0.0.1:1';
const script = fileURLToPath(new URL('../../../api/init-token-keys.ts', import.meta.url));
const run = promisify(execFile);
const rotate = (...args: string[]) => run(process.execPath, [script, '--rotate', ...args]);

const dir = mkdtempSync(join(tmpdir(), 'purser-token-rotation-'));
const keysFile = join(dir, 'tokens.jwks.json');
let api: TestApi;
let account: TestAccount;
let processes: ApiProcess[] = [];

beforeAll(async () => {
  await initTokenKeys({ keysFile });
  api = await startTestApi({ temporalAddress: nobody });
  account = await api.account();
  const env = { PURSER_TOKEN_KEYS_FILE: keysFile, PURSER_PUBLIC_URL: testIssuer };
  const start = () => startApiProcess({ databaseUrl: api.databaseUrl, temporalAddress: nobody, env });
  processes = await Promise.all([start(), start()]);
});
afterAll(async () => {
  await Promise.all(processes.map((each) => each.kill()));
  await api?.stop();
  rmSync(dir, { recursive: true, force: true });
});

async function jwksOf(url: string) {
  const response = await fetch(`${url}/.well-known/jwks.json`);
  return { headers: response.headers, status: response.status, jwks: (await response.json()) as JSONWebKeySet };
}
const kidsOf = async (url: string) => (await jwksOf(url)).jwks.keys.map(({ kid }) => kid);
const newestKid = () => readPrivateTokenKeys(keysFile)[0]!.kid;

describe('/.well-known/jwks.json', () => {
  it('has the public keys by which anybody can check an access token, for caches of five minutes', async () => {
    const { status, headers, jwks } = await jwksOf(processes[0]!.url);
    expect([status, headers.get('cache-control')]).toEqual([200, 'public, max-age=300']);
    expect(jwks.keys.map((key) => Object.keys(key).toSorted())).toEqual([
      ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'],
    ]);
    const person = await startRefreshing(api, account);
    const { body } = await refresherAt(processes[0]!.url)(person.refreshToken);
    const { payload } = await jwtVerify(body.access_token, createLocalJWKSet(jwks));
    expect(payload).toMatchObject({ iss: testIssuer, aud: 'purser', sid: person.sessionId });
  });

  it('is not there where no tokens are given', async () => {
    const without = await startTestApi({ temporalAddress: nobody, takesTokens: false });
    const { status } = await fetch(`${without.url}/.well-known/jwks.json`);
    await without.stop();
    expect(status).toBe(404);
  });
});

describe('a rotation of the keys of two processes', () => {
  it('refuses no token, whoever signed it before, while and after it, and needs no restart', async () => {
    const person = await startRefreshing(api, account);
    let refreshToken = person.refreshToken;
    const tokens: string[] = [];
    const seen = { refused: 0, checked: 0 };
    /** A token of one process, at once checked by both. */
    const step = async (by: number): Promise<string> => {
      const { status, body } = await refresherAt(processes[by]!.url)(refreshToken);
      expect(status).toBe(200);
      refreshToken = body.refresh_token;
      tokens.push(body.access_token);
      for (const { url } of processes) {
        seen.checked += 1;
        if (!(await isSignedIn(url, body.access_token))) seen.refused += 1;
      }
      return decodeProtectedHeader(body.access_token).kid!;
    };
    const signers = new Set<string>();
    for (let rotation = 0; rotation < 3; rotation += 1) {
      signers.add(await step(rotation % 2));
      await rotate('--keys', keysFile, '--in', '1');
      // Until both sign by the new key.
      let by = 0;
      for (let inRow = 0; inRow < 4; by = 1 - by) {
        const kid = await step(by);
        inRow = kid === newestKid() ? inRow + 1 : 0;
      }
      signers.add(newestKid());
    }
    for (const token of tokens)
      for (const { url } of processes) {
        seen.checked += 1;
        if (!(await isSignedIn(url, token))) seen.refused += 1;
      }
    expect(seen.refused).toBe(0);
    expect(signers.size).toBe(4);
    for (const { url } of processes)
      expect(await kidsOf(url)).toEqual(readTokenKeys(keysFile).publicJwks.keys.map(({ kid }) => kid));
    console.log(`three rotations: ${tokens.length} tokens were signed and checked ${seen.checked} times`);
  });

  it('publishes the new key before it signs', async () => {
    await rotate('--keys', keysFile);
    const kid = newestKid();
    for (const { url } of processes)
      await eventually(
        () => kidsOf(url),
        (kids) => kids.includes(kid),
      );
    const person = await startRefreshing(api, account);
    const { body } = await refresherAt(processes[0]!.url)(person.refreshToken);
    expect(decodeProtectedHeader(body.access_token).kid).not.toBe(kid);
  });

  it('is survived by a process that is given a broken file, and the broken file by its keys', async () => {
    const good = readFileSync(keysFile, 'utf8');
    const person = await startRefreshing(api, account);
    writeFileSync(keysFile, '{');
    try {
      const keys = JSON.parse(good).keys;
      const signed = createAccessTokens({ keys: () => readTokenKeys(join(dir, 'good.json')), issuer: testIssuer });
      writeFileSync(join(dir, 'good.json'), good);
      const { userId, sessionId } = person;
      const token = await signed.sign({ accountId: account.id, userId, sessionId });
      // A key that is not known has the file be looked at now.
      const unknown = await api.tokens.sign({ accountId: account.id, userId, sessionId });
      for (const { url } of processes) {
        expect(await isSignedIn(url, unknown)).toBe(false);
        expect(await isSignedIn(url, token)).toBe(true);
        expect(await kidsOf(url)).toHaveLength(keys.length);
      }
    } finally {
      writeFileSync(keysFile, good);
    }
  });
});

describe('the command', () => {
  it.each(['', '--rotate', '--keys x --in 5', '--keys x --rotate --in soon', '--keys x --rotate --in -1'])(
    'says how it is used where it is called with "%s"',
    async (line) => {
      const args = line === '' ? [] : line.split(' ');
      const failed = await run(process.execPath, [script, ...args]).catch(
        (error: { code: number; stderr: string }) => error,
      );
      expect(failed).toMatchObject({ code: 2, stderr: expect.any(String) });
      expect(failed.stderr).toMatch(
        /usage: node api\/init-token-keys\.ts --keys FILE \[--rotate \[--in SECONDS\]\]|argument/,
      );
    },
  );

  it('says that a file is there already, and shows nothing of it', async () => {
    const failed = await run(process.execPath, [script, '--keys', keysFile]).catch(
      (error: { stderr: string }) => error,
    );
    expect(failed.stderr).toBe(`token keys: ${keysFile} exists already and is left as it is\n`);
  });
});
