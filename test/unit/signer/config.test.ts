import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { importReceiptKey } from '../../../shared/receipt.ts';
import { readSignerConfig } from '../../../signer/config.ts';
import { loadCoordinatorIdentity, loadSignerIdentity } from '../../../signer/identity.ts';
import { initSecrets } from '../../../signer/init.ts';

const key = 'A'.repeat(43);
const identity = `${key}.${key}`;
const kek = Buffer.alloc(32, 7).toString('base64');
const valid = {
  PURSER_SIGNER_PARTY: '2',
  PURSER_SIGNER_PORT: '7002',
  PURSER_SIGNER_DATA_DIR: '/data',
  PURSER_SIGNER_KEK: kek,
  PURSER_SIGNER_IDENTITY_FILE: '/identity.json',
  PURSER_SIGNER_PEERS: JSON.stringify({ 1: identity, 3: identity }),
  PURSER_COORDINATOR_PUBLIC_KEY: key,
  PURSER_POLICY_PUBLIC_KEY: key,
};

describe('settings of a signer', () => {
  it('default to a private address, the best engine and information', () => {
    const config = readSignerConfig(valid);
    expect(config).toMatchObject({ party: 2, host: '127.0.0.1', port: 7002, engine: 'auto', logLevel: 'info' });
    expect([...config.peers.keys()]).toEqual([1, 3]);
  });

  it.each([
    ['PURSER_ENV', 'prod', /^PURSER_ENV must be sandbox or production$/],
    ['PURSER_SIGNER_PARTY', '4', /^PURSER_SIGNER_PARTY must be 1, 2 or 3$/],
    ['PURSER_SIGNER_PARTY', undefined, /^PURSER_SIGNER_PARTY must be 1, 2 or 3$/],
    ['PURSER_SIGNER_PORT', '70000', /^PURSER_SIGNER_PORT must be a port number/],
    ['PURSER_SIGNER_PORT', undefined, /^PURSER_SIGNER_PORT is missing/],
    ['PURSER_SIGNER_DATA_DIR', undefined, /^PURSER_SIGNER_DATA_DIR is missing/],
    ['PURSER_SIGNER_IDENTITY_FILE', undefined, /^PURSER_SIGNER_IDENTITY_FILE is missing/],
    ['PURSER_SIGNER_PEERS', 'x', /^PURSER_SIGNER_PEERS must be a JSON object/],
    ['PURSER_SIGNER_PEERS', '{"1":"short"}', /^PURSER_SIGNER_PEERS → 1 must be <ed25519>.<x25519>/],
    ['PURSER_SIGNER_PEERS', JSON.stringify({ 1: identity }), /^PURSER_SIGNER_PEERS must name the other signers; 3 of/],
    ['PURSER_COORDINATOR_PUBLIC_KEY', 'short', /^PURSER_COORDINATOR_PUBLIC_KEY must be an Ed25519 public key/],
    ['PURSER_POLICY_PUBLIC_KEY', undefined, /^PURSER_POLICY_PUBLIC_KEY is missing/],
    ['PURSER_ENGINE', 'fast', /^PURSER_ENGINE must be auto, wasm or native$/],
    ['PURSER_LOG_LEVEL', 'loud', /^PURSER_LOG_LEVEL must be one of/],
    ['PURSER_SIGNER_KEK', undefined, /^exactly one of PURSER_SIGNER_KEK_FILE and PURSER_SIGNER_KEK/],
    ['PURSER_SIGNER_KEK_FILE', '/also', /^exactly one of/],
  ])('%s = %s is refused in one sentence', (name, value, message) => {
    expect(() => readSignerConfig({ ...valid, [name]: value })).toThrow(message);
  });

  it('never repeat a secret in an error', () => {
    const short = Buffer.alloc(31, 7).toString('base64');
    const read = () => readSignerConfig({ ...valid, PURSER_SIGNER_KEK: short });
    expect(read).toThrow(
      /^PURSER_SIGNER_KEK must hold 32 bytes in base64, as signer\/init.ts writes them; it holds 31$/,
    );
    expect(read).not.toThrow(short);
  });
});

describe('secrets of a signer, the coordinator and the policy step', () => {
  let dir = '';
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'purser-init-'));
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  it('are readable by their owner only, load again, and answer with public halves alone', async () => {
    const made = await initSecrets({ kind: 'signer', dir });
    for (const file of [made.identityFile, made.kekFile!]) expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await loadSignerIdentity(made.identityFile)).toMatchObject({ publicKey: made.publicKey });
    expect(made.publicKey).toMatch(/^[A-Za-z0-9_-]{43}\.[A-Za-z0-9_-]{43}$/);
    const secrets = readFileSync(made.identityFile, 'utf8').matchAll(/"d":"([^"]+)"/g);
    for (const [, secret] of secrets) expect(JSON.stringify(made)).not.toContain(secret);

    const coordinator = await initSecrets({ kind: 'coordinator', dir });
    expect(await loadCoordinatorIdentity(coordinator.identityFile)).toMatchObject({ publicKey: coordinator.publicKey });
    const policy = await initSecrets({ kind: 'policy', dir });
    await expect(importReceiptKey(readFileSync(policy.identityFile, 'utf8'))).resolves.toBeDefined();
  });

  it('are never overwritten', async () => {
    const { identityFile } = await initSecrets({ kind: 'signer', dir });
    const before = readFileSync(identityFile, 'utf8');
    await expect(initSecrets({ kind: 'signer', dir })).rejects.toThrow(/exists already and is left as it is/);
    expect(readFileSync(identityFile, 'utf8')).toBe(before);
  });

  it('that do not load are named, and not quoted', async () => {
    const { identityFile } = await initSecrets({ kind: 'signer', dir });
    const secret = /"d":"([^"]+)"/.exec(readFileSync(identityFile, 'utf8'))![1]!;
    await expect(loadCoordinatorIdentity(identityFile)).rejects.toThrow(/identity file .* is not valid/);
    await expect(loadCoordinatorIdentity(identityFile)).rejects.not.toThrow(secret);
    await expect(loadSignerIdentity(join(dir, 'none'))).rejects.toThrow(/cannot be read \(ENOENT\)/);
    await expect(importReceiptKey(`{"d":"${secret}"}`)).rejects.not.toThrow(secret);
  });
});
