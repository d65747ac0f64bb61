import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLogger } from '../../../shared/log.ts';
import { initSecrets, rotateKek } from '../../../signer/init.ts';
import { createKek, createKeyEncryption, type Kek } from '../../../signer/kek.ts';
import { environmentKekSource, fileKekSource } from '../../../signer/kek-source.ts';
import { createKekRotation } from '../../../signer/rotate-kek.ts';
import { openSignerStore } from '../../../signer/store.ts';

const [first, second, third] = [1, 2, 3].map((n) => Buffer.alloc(32, n).toString('base64')) as [string, string, string];
const idOf = (text: string) => createKek(Buffer.from(text, 'base64')).id;

describe('sources of key-encryption keys', () => {
  let dir = '';
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'purser-kek-'));
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  it('are a file with the newest key first, read anew each time', async () => {
    const file = join(dir, 'kek');
    const source = fileKekSource({ file, isProduction: true });
    writeFileSync(file, `${first}\n`);
    expect((await source.read()).map(({ id }) => id)).toEqual([idOf(first)]);
    writeFileSync(file, `\n${second}\n${first} with a remark\n\n`);
    expect((await source.read()).map(({ id }) => id)).toEqual([idOf(second), idOf(first)]);
    rmSync(file);
    await expect(source.read()).rejects.toThrow(`PURSER_SIGNER_KEK_FILE ${file} cannot be read (ENOENT)`);
  });

  it('are two variables', async () => {
    const source = environmentKekSource({ current: third, previous: `${second}, ${first}` });
    expect((await source.read()).map(({ id }) => id)).toEqual([third, second, first].map(idOf));
  });

  it('refuse what is no key, a key twice, too many, and one for trying out in production, and never repeat any', async () => {
    const file = join(dir, 'kek');
    const of = (text: string, isProduction = true) => {
      writeFileSync(file, text);
      return fileKekSource({ file, isProduction }).read();
    };
    await expect(of('')).rejects.toThrow(/must hold 32 bytes in base64, .* it holds 0$/);
    await expect(of(`${first}\nAAAA\n`)).rejects.toThrow(/must hold 32 bytes in base64, .* it holds 3$/);
    await expect(of(`${first}\n${first}\n`)).rejects.toThrow(/holds a key twice$/);
    const many = Array.from({ length: 17 }, () => randomBytes(32).toString('base64')).join('\n');
    await expect(of(many)).rejects.toThrow(/holds 17 keys; take out those that nothing is sealed under/);
    await expect(of(`${first} purser_development`)).rejects.toThrow(/made by npm start for trying out, and refused/);
    await expect(of(`${first} purser_development`, false)).resolves.toHaveLength(1);
    await expect(of(`${first}\n${first}\n`)).rejects.not.toThrow(first);
  });

  it('rotate: a new key on top, the others kept, the mode and the mark too', async () => {
    const { kekFile } = await initSecrets({ kind: 'signer', dir });
    const before = readFileSync(kekFile!, 'utf8').trim();
    const rotated = rotateKek({ dir });
    const [added, ...rest] = readFileSync(kekFile!, 'utf8').trim().split('\n');
    expect(rest).toEqual([before]);
    expect(rotated).toEqual({ kekFile, current: idOf(added!), earlier: [idOf(before)] });
    expect(statSync(kekFile!).mode & 0o777).toBe(0o600);
    expect(JSON.stringify(rotated)).not.toContain(added);
    writeFileSync(kekFile!, `${before} purser_development\n`);
    rotateKek({ dir });
    for (const line of readFileSync(kekFile!, 'utf8').trim().split('\n')) expect(line).toMatch(/ purser_development$/);
    for (let n = 2; n < 16; n++) rotateKek({ dir });
    expect(() => rotateKek({ dir })).toThrow(/holds 16 keys; take out/);
    expect(() => rotateKek({ dir: join(dir, 'nowhere') })).toThrow(/cannot be read \(ENOENT\)/);
  });
});

describe('shares that are sealed anew', () => {
  let dataDir = '';
  const log = createLogger({ process: 'test', level: 'silent' });
  const kek = (text: string): Kek => createKek(Buffer.from(text, 'base64'));
  const share = Uint8Array.of(1, 2, 3);
  const fill = (store: ReturnType<typeof open>, n: number) => {
    for (let i = 0; i < n; i++) {
      store.reserveKey({ keyId: `k${i}`, sessionId: `s${i}` });
      store.putShare({ keyId: `k${i}`, share, publicKey: randomBytes(65), chainCode: randomBytes(32) });
      store.activateKey(`k${i}`);
    }
  };
  const open = (keks: readonly Kek[]) =>
    openSignerStore({
      dataDir,
      party: 1,
      engineVersion: 'v1',
      keyEncryption: createKeyEncryption(keks),
      now: () => new Date(),
    });

  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'purser-kek-'));
  });
  afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

  it('open at every moment, and under the new key alone once all are done', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 5 }), (n, max) => {
        rmSync(dataDir, { recursive: true, force: true });
        const before = open([kek(first)]);
        fill(before, n);
        before.close();
        const store = open([kek(second), kek(first)]);
        let after: { keyId: string; epoch: number } | undefined;
        let done = 0;
        do {
          const step = store.resealSome({ kekId: idOf(second), after, max });
          expect(step.damaged).toEqual([]);
          after = step.position;
          done = Math.min(n, done + max);
          expect(store.sharesByKek().get(idOf(second)) ?? 0).toBe(done);
          for (let i = 0; i < n; i++) expect(Buffer.from(store.getShare(`k${i}`).share)).toEqual(Buffer.from(share));
        } while (after);
        store.close();
        const later = open([kek(second)]);
        expect([...later.sharesByKek()]).toEqual([[idOf(second), n]]);
        for (let i = 0; i < n; i++) expect(Buffer.from(later.getShare(`k${i}`).share)).toEqual(Buffer.from(share));
        later.close();
      }),
      { numRuns: 15 },
    );
  });

  it('pass by one that is damaged, and name it', () => {
    const before = open([kek(first)]);
    fill(before, 2);
    before.close();
    const store = open([kek(third), kek(second)]); // the key of the shares is not among them
    const step = store.resealSome({ kekId: idOf(third), after: undefined, max: 5 });
    expect(step.position).toBeUndefined();
    expect(step.damaged).toHaveLength(2);
    expect(step.damaged[0]).toMatch(
      new RegExp(
        `share of key k0, epoch 1, does not open: it is sealed under key-encryption key ${idOf(first)}, which`,
      ),
    );
    store.close();
  });

  it('are refused as a whole where their key is not there, with what to put back', () => {
    const before = open([kek(first)]);
    fill(before, 2);
    before.close();
    const keyEncryption = createKeyEncryption([kek(second)]);
    const store = open([kek(second)]);
    const source = { name: 'PURSER_SIGNER_KEK_FILE /keys/kek', read: async () => [kek(second)] };
    expect(() => createKekRotation({ source, keyEncryption, store, log })).toThrow(
      `PURSER_SIGNER_KEK_FILE /keys/kek does not hold every key-encryption key that is in use: 2 shares are sealed under ${idOf(first)}, it holds ${idOf(second)}; put the missing one below the others`,
    );
    store.close();
  });
});
