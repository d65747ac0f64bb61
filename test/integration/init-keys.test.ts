import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { readPrivateTokenKeys } from '../../api/tokens/read-token-keys.ts';
import { readWebhookKeys, readWebhookPublicKey } from '../../shared/webhook-keys.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const dir = mkdtempSync(join(tmpdir(), 'purser-init-keys-'));
const keysFile = join(dir, 'webhooks', 'webhooks.jwks.json');
const publicKeyFile = join(dir, 'api', 'webhooks-public.json');
const tokenKeysFile = join(dir, 'api', 'tokens.jwks.json');

function run(command: string, args: string[]) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: root, encoding: 'utf8' });
  return { status, stdout, stderr };
}
const initKeys = () => run('sh', ['deploy/init-keys.sh', dir]);
const rotate = (...args: string[]) => run(process.execPath, ['worker/init-webhook-keys.ts', ...args]);

describe('the keys of an installation', () => {
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  it('are made by one command, which tells the lines for .env and nothing that is secret', () => {
    const { status, stdout } = initKeys();
    expect(status).toBe(0);
    expect(stdout.match(/^PURSER_(SIGNER_[123]|COORDINATOR|POLICY|OPERATOR)_PUBLIC_KEY=.+$/gm)).toHaveLength(6);
    expect(readdirSync(dir).sort()).toEqual([
      'api',
      'coordinator',
      'operator',
      'policy',
      'signer-1',
      'signer-2',
      'signer-3',
      'webhooks',
    ]);
    const [key] = readWebhookKeys(keysFile).keys;
    expect(readWebhookPublicKey(publicKeyFile).kid).toBe(key!.kid);
    const [tokenKey] = readPrivateTokenKeys(tokenKeysFile);
    for (const { d } of [key!, tokenKey!]) expect(stdout).not.toContain(d);
    expect(statSync(tokenKeysFile).mode & 0o777).toBe(0o600);
  });

  it('are left as they are by a second run, and those that an earlier version did not have are made by it', () => {
    const files = () =>
      readdirSync(dir, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map(({ parentPath, name }) => [join(parentPath, name), readFileSync(join(parentPath, name), 'utf8')])
        .sort();
    const before = files();
    const again = initKeys();
    expect([again.status, again.stdout]).toEqual([0, '']);
    expect(again.stderr).toMatch(/are there already and are left as they are/);
    expect(files()).toEqual(before);
    for (const part of ['webhooks', 'api', 'operator']) rmSync(join(dir, part), { recursive: true });
    const mended = initKeys();
    expect(mended.status).toBe(0);
    expect(mended.stdout).toMatch(/^PURSER_OPERATOR_PUBLIC_KEY=[A-Za-z0-9_-]{43}\n$/);
    expect(readWebhookPublicKey(publicKeyFile).kid).toBe(readWebhookKeys(keysFile).keys[0]!.kid);
    expect(readPrivateTokenKeys(tokenKeysFile)).toHaveLength(1);
  });

  it('for secrets of webhooks are rotated by a command, which says how where it is called wrongly', () => {
    const [old] = readWebhookKeys(keysFile).keys;
    expect(rotate('--rotate', '--keys', keysFile, '--public', publicKeyFile).status).toBe(0);
    expect(readWebhookKeys(keysFile).keys[1]).toEqual(old);
    const wrong = rotate('--rotate');
    expect(wrong.status).toBe(2);
    expect(wrong.stderr).toMatch(/^usage: node worker\/init-webhook-keys\.ts --keys FILE --public FILE/);
    const taken = rotate('--keys', keysFile, '--public', publicKeyFile);
    expect([taken.status, taken.stderr]).toEqual([
      1,
      `webhook keys: ${keysFile} exists already and is left as it is\n`,
    ]);
  });
});
