import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readBackup } from '../../../signer/backup/read.ts';
import { createKek, createKeyEncryption } from '../../../signer/kek.ts';
import { openSignerStore } from '../../../signer/store.ts';

const KEYS = 20;
const KILLS = 4;
/** Each kill is a start of a process, which a busy machine takes seconds for. */
const TIMEOUT_MS = 180_000;
const program = fileURLToPath(new URL('../../support/safekeeping-process.ts', import.meta.url));
const keks = [randomBytes(32), randomBytes(32)] as const;
const text = (order: readonly Buffer[]) => order.map((kek) => kek.toString('base64')).join(',');

describe('a signer that is killed in the middle', () => {
  const home = mkdtempSync(join(tmpdir(), 'purser-killed-'));
  const dataDir = join(home, 'data');
  const children: ChildProcess[] = [];
  const open = (order: readonly Buffer[]) =>
    openSignerStore({
      dataDir,
      party: 2,
      engineVersion: 'v1',
      keyEncryption: createKeyEncryption(order.map((kek) => createKek(kek))),
      now: () => new Date(),
    });
  const share = Buffer.alloc(100_000, 'share');

  beforeAll(() => {
    mkdirSync(join(home, 'target'));
    const store = open([keks[0]]);
    for (let n = 0; n < KEYS; n++) {
      store.reserveKey({ keyId: `k${n}`, sessionId: `s${n}` });
      store.putShare({ keyId: `k${n}`, share, publicKey: Buffer.alloc(65, 4), chainCode: Buffer.alloc(32, 5) });
      store.activateKey(`k${n}`);
    }
    store.close();
  });
  afterAll(() => {
    for (const child of children) child.kill('SIGKILL');
    rmSync(home, { recursive: true, force: true });
  });

  /** Runs until it has begun, and kills it some milliseconds later. */
  async function killSoon(args: string[], withinMs: number): Promise<void> {
    const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    const gone = new Promise((resolve) => child.once('exit', resolve));
    const begun = Promise.withResolvers<void>();
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line === 'begun') begun.resolve();
    });
    child.once('exit', () => begun.reject(new Error('the process ended before it had begun')));
    await begun.promise;
    // The moment of the death is what is tried out here; nothing is waited for.
    await setTimeout(randomInt(withinMs));
    child.kill('SIGKILL');
    await gone;
  }

  it('leaves a whole backup, whenever that is in writing it anew', { timeout: TIMEOUT_MS }, async () => {
    const identity = await generateIdentity();
    const args = ['backup', dataDir, text([keks[0]]), join(home, 'target'), await identityToRecipient(identity)];
    for (let n = 0; n < KILLS; n++) {
      await killSoon(args, 250);
      const keys = new Set<string>();
      const { bytesIgnored } = await readBackup({
        file: join(home, 'target', 'signer-2.backup'),
        identities: [identity],
        verificationKey: undefined,
        onFrame: (frame) => void (frame.kind === 'key' && keys.add(frame.keyId)),
      });
      expect([keys.size, bytesIgnored]).toEqual([KEYS, 0]);
    }
  });

  it('leaves every share under the old key or the new, whenever that is in sealing them anew', {
    timeout: TIMEOUT_MS,
  }, async () => {
    let isUndecided = 0;
    // On a busy machine it may have done nothing in its first milliseconds.
    for (let n = 0; n < KILLS || isUndecided === 0; n++) {
      await killSoon(['reseal', dataDir, text(keks)], 200);
      const store = open(keks);
      const counts = store.sharesByKek();
      if (counts.size === 2) isUndecided++;
      expect([...counts.values()].reduce((a, b) => a + b, 0)).toBe(KEYS);
      for (let k = 0; k < KEYS; k++) expect(Buffer.from(store.getShare(`k${k}`).share).equals(share)).toBe(true);
      store.close();
    }
    const store = open(keks);
    store.resealSome({ kekId: createKek(keks[0]).id, after: undefined, max: KEYS });
    store.close();
    const later = open([keks[0]]);
    for (let k = 0; k < KEYS; k++) expect(Buffer.from(later.getShare(`k${k}`).share).equals(share)).toBe(true);
    later.close();
  });
});
