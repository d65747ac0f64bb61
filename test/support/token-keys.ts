import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { initTokenKeys } from '../../api/init-token-keys.ts';

/** Issuer of access tokens in tests. */
export const testIssuer = 'https://purser.test';

let made: Promise<{ keysFile: string }> | undefined;

/** Keys of access tokens, one set for all tests of a process; the file goes when the process does. */
export function testTokenKeys(): Promise<{ keysFile: string }> {
  made ??= make();
  return made;
}

async function make() {
  const dir = mkdtempSync(join(tmpdir(), 'purser-token-keys-'));
  process.once('exit', () => rmSync(dir, { recursive: true, force: true }));
  const keysFile = join(dir, 'tokens.jwks.json');
  await initTokenKeys({ keysFile });
  return { keysFile };
}

/** What api processes of a test are told, so that they take the tokens of `startTestApi`. */
export async function testTokenEnv() {
  const { keysFile } = await testTokenKeys();
  return { PURSER_TOKEN_KEYS_FILE: keysFile, PURSER_PUBLIC_URL: testIssuer };
}
