import { randomUUID } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import fc from 'fast-check';
import { type CryptoKey, generateKeyPair } from 'jose';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLogger } from '../../../shared/log.ts';
import { createSignerBackup, type SignerBackup } from '../../../signer/backup/backup.ts';
import { restoreBackup } from '../../../signer/backup/restore.ts';
import { createKek, createKeyEncryption } from '../../../signer/kek.ts';
import type { Party } from '../../../signer/parties.ts';
import { openDatabase } from '../../../signer/store/database.ts';
import { openSignerStore, type SignerStore } from '../../../signer/store.ts';

const log = createLogger({ process: 'test', level: 'silent' });
const kek = createKek(Buffer.alloc(32, 1));
const otherKek = createKek(Buffer.alloc(32, 2));
const secret = Buffer.from('this is the share of a key, and a secret');
const publicKey = Buffer.alloc(65, 4);
const chainCode = Buffer.alloc(32, 5);

describe('a backup', () => {
  let home = '';
  let store: SignerStore;
  let backup: SignerBackup;
  let identity = '';
  let signing: { privateKey: CryptoKey; publicKey: CryptoKey };
  const opened: SignerStore[] = [];
  const openStore = (name: string, key = kek, party: Party = 2) => {
    const keyEncryption = createKeyEncryption([key]);
    const made = openSignerStore({
      dataDir: join(home, name),
      party,
      engineVersion: 'v1',
      keyEncryption,
      now: () => new Date(),
    });
    opened.push(made);
    return made;
  };
  const target = () => join(home, 'target');
  const file = () => join(target(), 'signer-2.backup');
  const begin = async (of: SignerStore) =>
    createSignerBackup({
      target: { dir: target(), recipients: [await identityToRecipient(identity)] },
      party: 2,
      store: of,
      signingKey: signing.privateKey,
      log,
      now: () => new Date(),
    });
  const addKey = (keyId: string, share: Uint8Array = Buffer.from(secret)) => {
    store.reserveKey({ keyId, sessionId: `s-${keyId}`, ownerKey: 'owner' });
    store.putShare({ keyId, share, publicKey, chainCode });
  };
  const addEpoch = (keyId: string, epoch: number, share = `share ${epoch}`) => {
    const about = { keyId, epoch, complete: false, sessionId: randomUUID(), atMs: 1 };
    store.putEpoch({ ...about, share: Buffer.from(share), publicKey, chainCode });
  };
  const restore = (changes: Partial<Parameters<typeof restoreBackup>[0]> = {}) =>
    restoreBackup({
      file: file(),
      identities: [identity],
      verificationKey: signing.publicKey,
      party: 2,
      dataDir: join(home, 'restored'),
      keyEncryption: createKeyEncryption([otherKek]),
      ...changes,
    });
  const shareOf = (of: SignerStore, keyId: string, epoch?: number) =>
    Buffer.from(of.getShare(keyId, epoch).share).toString();

  beforeEach(async () => {
    home = mkdtempSync(join(tmpdir(), 'purser-backup-'));
    mkdirSync(target());
    identity = await generateIdentity();
    signing = await generateKeyPair('EdDSA');
    store = openStore('data');
    backup = await begin(store);
  });
  afterEach(() => {
    backup.stop();
    for (const each of opened.splice(0)) each.close();
    rmSync(home, { recursive: true, force: true });
  });

  it('brings back keys, epochs, owners, bans and given up ids, and lets nothing sign before records are merged', async () => {
    addKey('first');
    store.activateKey('first');
    await backup.rewrite();
    addKey('second');
    await backup.keep({ keyId: 'second', epoch: 1 });
    store.activateKey('second');
    store.ban({ keyId: 'first', party: 3, reason: 'it cheated' });
    store.reserveKey({ keyId: 'given-up', sessionId: 's' });
    await backup.rewrite();
    addEpoch('first', 2);
    await backup.keep({ keyId: 'first', epoch: 2 });

    const restored = await restore();
    expect(restored).toMatchObject({ party: 2, keys: 2, shares: 3, bytesIgnored: 0 });
    expect(Date.now() - Date.parse(restored.writtenAt)).toBeLessThan(60_000);
    const again = openStore('restored', otherKek);
    expect(shareOf(again, 'first', 1)).toBe(String(secret));
    expect(shareOf(again, 'first', 2)).toBe('share 2');
    expect(shareOf(again, 'second')).toBe(String(secret));
    expect(again.listKeys()).toEqual(store.listKeys().map((key) => ({ ...key, hasRecords: false })));
    expect(again.listBans()).toEqual(store.listBans());
    expect(again.stateOf('given-up')).toBe('abandoned');
    expect(() => again.reserveKey({ keyId: 'given-up', sessionId: 't' })).toThrow(/was used before/);
    expect(again.sharesByKek()).toEqual(new Map([[otherKek.id, 3]]));
  });

  it('brings back what each table of records holds', async () => {
    addKey('k');
    store.activateKey('k');
    // Every table of the store, whatever it is for: one row each, as its columns want it.
    const tables = fillTables(join(home, 'data'));
    expect(tables.length).toBeGreaterThan(3);
    store = openStore('data');
    backup = await begin(store);
    await backup.rewrite();
    await restore();
    opened.splice(0).map((each) => each.close());
    for (const table of tables) {
      expect({ table, rows: rowsOf(join(home, 'restored'), table) }).toEqual({
        table,
        rows: rowsOf(join(home, 'data'), table),
      });
    }
  });

  it('holds no share in clear, and only its owner may read it', async () => {
    addKey('k');
    await backup.keep({ keyId: 'k', epoch: 1 });
    const bytes = readFileSync(file());
    for (const form of [secret, Buffer.from(secret.toString('hex')), Buffer.from(secret.toString('base64'))])
      expect(bytes.includes(form)).toBe(false);
    expect(bytes.includes('owner')).toBe(false);
    expect(statSync(file()).mode & 0o777).toBe(0o600);
  });

  it('forgets old epochs by itself, some seconds after the last was erased', async () => {
    addKey('k');
    store.activateKey('k');
    await backup.rewrite();
    addEpoch('k', 2);
    await backup.keep({ keyId: 'k', epoch: 2 });
    store.activateEpoch({ keyId: 'k', epoch: 2, sessionId: store.epochFacts('k', 2)!.sessionId });
    store.eraseEpochsBelow({ keyId: 'k', epoch: 2 });
    const before = statSync(file());
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      backup.changed('k');
      await vi.waitFor(() => expect(vi.getTimerCount()).toBe(1), { timeout: 30_000 });
      expect(statSync(file()).size).toBeGreaterThan(before.size);
      vi.advanceTimersByTime(10_000);
    } finally {
      vi.useRealTimers();
    }
    await expect.poll(() => statSync(file()).ino).not.toBe(before.ino);
    await restore();
    const again = openStore('restored', otherKek);
    expect(again.epochsOf('k').map(({ epoch }) => epoch)).toEqual([2]);
  });

  it('is written anew when half of it is waste', async () => {
    addKey('k', Buffer.alloc(1024 * 1024, 7));
    store.activateKey('k');
    await backup.rewrite();
    const { ino } = statSync(file());
    for (let n = 0; n < 4; n++) {
      addEpoch('k', 2);
      await backup.keep({ keyId: 'k', epoch: 2 });
    }
    await expect.poll(() => statSync(file()).ino).not.toBe(ino);
    expect(statSync(file()).size).toBeLessThan(1.5 * 1024 * 1024);
  });

  it('is whole again where somebody took it away, cut it or put another in its place', async () => {
    addKey('k');
    await backup.rewrite();
    addKey('other');
    rmSync(file());
    await backup.keep({ keyId: 'other', epoch: 1 });
    expect(await restore({ dataDir: join(home, 'a') })).toMatchObject({ shares: 2 });
    truncateSync(file(), statSync(file()).size - 1);
    await backup.keep({ keyId: 'k', epoch: 1 });
    expect(await restore({ dataDir: join(home, 'b') })).toMatchObject({ shares: 2, bytesIgnored: 0 });
    copyFileSync(file(), `${file()}.copy`);
    rmSync(file());
    copyFileSync(`${file()}.copy`, file());
    await backup.keep({ keyId: 'k', epoch: 1 });
    expect(await restore({ dataDir: join(home, 'c') })).toMatchObject({ shares: 2, bytesIgnored: 0 });
  });

  it('never gives way to one of a store that has lost its keys', async () => {
    addKey('k');
    await backup.rewrite();
    const before = readFileSync(file());
    const empty = openStore('empty');
    const ofEmpty = await begin(empty);
    await expect(ofEmpty.rewrite()).rejects.toThrow(
      /cannot write its backup .*signer-2\.backup \(it holds 1 keys, the store has 0; restore from it, or move it away/,
    );
    expect(readFileSync(file())).toEqual(before);
    writeFileSync(file(), 'something else');
    await expect((await begin(empty)).rewrite()).rejects.toThrow(
      /does not begin as a backup of a signer; move it away/,
    );
    writeFileSync(file(), before.toString('latin1').replace('signer 2', 'signer 3'), 'latin1');
    await expect((await begin(empty)).rewrite()).rejects.toThrow(/it is the backup of signer 3; move it away/);
  });

  it('says why it cannot be written, refuses to keep, and goes on when it can', async () => {
    addKey('k');
    rmSync(target(), { recursive: true });
    writeFileSync(target(), 'a file where the directory should be');
    const keeping = backup.keep({ keyId: 'k', epoch: 1 });
    await expect(keeping).rejects.toMatchObject({ code: 'backup_failed' });
    await expect(keeping).rejects.toThrow(
      /^signer 2 cannot write its backup .* \(ENOTDIR.*\): it takes part in no new key and no refresh until it can; signing goes on$/,
    );
    expect(backup.status()?.error).toMatch(/^signer 2 cannot write its backup/);
    rmSync(target());
    mkdirSync(target());
    await backup.keep({ keyId: 'k', epoch: 1 });
    expect(backup.status()).toMatchObject({ file: file(), error: null, bytes: statSync(file()).size });
    expect(Date.now() - backup.status()!.currentAtMs!).toBeLessThan(60_000);
  });

  it('keeps the share of the last run where an earlier one has left an epoch of the same number', async () => {
    addKey('k');
    store.activateKey('k');
    addEpoch('k', 2, 'left by a run that was cut off');
    await backup.keep({ keyId: 'k', epoch: 2 });
    addEpoch('k', 2, 'of the run that came to its end');
    await backup.keep({ keyId: 'k', epoch: 2 });
    const { size } = statSync(file());
    await backup.keep({ keyId: 'k', epoch: 2 });
    expect(statSync(file()).size).toBe(size);
    await restore();
    expect(shareOf(openStore('restored', otherKek), 'k', 2)).toBe('of the run that came to its end');
  });

  it('does not say that it keeps what the store does not have', async () => {
    addKey('k');
    await expect(backup.keep({ keyId: 'k', epoch: 2 })).rejects.toThrow(/epoch 2 of key k is not stored/);
    await expect(backup.keep({ keyId: 'unknown', epoch: 1 })).rejects.toMatchObject({ code: 'backup_failed' });
  });

  it('that is not wanted is none, and only asking for one says so', async () => {
    const none = createSignerBackup({
      target: undefined,
      party: 2,
      store,
      signingKey: signing.privateKey,
      log,
      now: () => new Date(),
    });
    none.start();
    await none.keep({ keyId: 'unknown', epoch: 9 });
    none.changed('unknown');
    expect(none.status()).toBeNull();
    await expect(none.rewrite()).rejects.toThrow(/^signer 2 has no backup: set PURSER_SIGNER_BACKUP_DIR and/);
  });

  describe('is restored', () => {
    beforeEach(async () => {
      addKey('k');
      await backup.rewrite();
      addKey('later');
      await backup.keep({ keyId: 'later', epoch: 1 });
    });

    it('without the frame whose writing was cut off, and only that', async () => {
      const whole = statSync(file()).size;
      truncateSync(file(), whole - 1);
      const restored = await restore();
      expect(restored).toMatchObject({ shares: 1 });
      expect(restored.bytesIgnored).toBeGreaterThan(100);
      const [first, second] = framesOf(readFileSync(file()));
      const head = readFileSync(file()).indexOf('\n') + 1;
      truncateSync(file(), head + first!.length + second!.length);
      await expect(restore({ dataDir: join(home, 'b') })).rejects.toThrow(
        /signer-2\.backup: it is cut off before its end$/,
      );
    });

    it('not with one bit flipped, wherever it is', async () => {
      const bytes = readFileSync(file());
      const head = bytes.indexOf('\n') + 1;
      await fc.assert(
        fc.asyncProperty(fc.integer({ min: head * 8, max: bytes.length * 8 - 1 }), async (bit) => {
          const flipped = Buffer.from(bytes);
          flipped[bit >> 3]! ^= 1 << (bit & 7);
          writeFileSync(file(), flipped);
          await expect(restore()).rejects.toThrow(/^backup .*signer-2\.backup: /);
          expect(readdirSync(join(home, 'restored'))).toEqual([]);
        }),
        { numRuns: 60 },
      );
    });

    it('not with frames taken out, swapped, or put in from another backup', async () => {
      const bytes = readFileSync(file());
      const frames = framesOf(bytes);
      const head = bytes.subarray(0, bytes.indexOf('\n') + 1);
      const write = (...parts: Buffer[]) => writeFileSync(file(), Buffer.concat([head, ...parts]));
      write(frames[0]!, ...frames.slice(2));
      await expect(restore()).rejects.toThrow(/frame 1 is not the one that was written there/);
      write(frames[0]!, frames[2]!, frames[1]!, ...frames.slice(3));
      await expect(restore()).rejects.toThrow(/frame 1 is not the one that was written there/);
      await backup.rewrite();
      const others = framesOf(readFileSync(file()));
      write(frames[0]!, others[1]!, ...frames.slice(2));
      await expect(restore()).rejects.toThrow(/frame 1 is not the one that was written there/);
    });

    it('not with another identity, and says which it is for', async () => {
      const recipient = await identityToRecipient(identity);
      await expect(restore({ identities: [await generateIdentity()] })).rejects.toThrow(
        `no identity that was given opens it; it is for ${recipient}`,
      );
      await expect(restore({ identities: [] })).rejects.toThrow('no identity that was given opens it');
    });

    it('not when another signer, or anybody who knows the recipient, wrote it', async () => {
      const stranger = await generateKeyPair('EdDSA');
      await expect(restore({ verificationKey: stranger.publicKey })).rejects.toThrow(
        /frame 0 is damaged, or not what the signer wrote \(it is not signed by the signer whose backup it should be\)/,
      );
      await expect(restore({ party: 3 })).rejects.toThrow(/is of signer 2, not of signer 3$/);
    });

    it('not over a store that is there, and not from nowhere', async () => {
      await expect(restore({ dataDir: join(home, 'data') })).rejects.toThrow(
        /signer\.sqlite exists already and is left/,
      );
      await expect(restore({ file: join(home, 'nowhere') })).rejects.toThrow(/nowhere cannot be read \(ENOENT\)$/);
      writeFileSync(join(home, 'noise'), 'noise');
      await expect(restore({ file: join(home, 'noise') })).rejects.toThrow(/does not begin as a backup of a signer$/);
    });

    it('over what an attempt that was cut off has left', async () => {
      mkdirSync(join(home, 'restored'));
      writeFileSync(join(home, 'restored', 'signer.sqlite.restoring'), 'half');
      expect(await restore()).toMatchObject({ shares: 2 });
      expect(existsSync(join(home, 'restored', 'signer.sqlite.restoring'))).toBe(false);
    });
  });

  function fillTables(dataDir: string): string[] {
    opened.splice(0).map((each) => each.close());
    const db = openDatabase(dataDir);
    const tables = db
      .prepare(`select name from sqlite_schema where type = 'table' and name not like 'sqlite%' order by name`)
      .all()
      .map(({ name }) => name as string)
      .filter((name) => !['keys', 'shares', 'signing_log'].includes(name));
    for (const table of tables) {
      const columns = db.prepare(`select name, type, "notnull", pk from pragma_table_info('${table}')`).all();
      const values = columns.map(({ name, type }) => {
        if (name === 'only_one') return 1;
        if (type === 'INTEGER' || type === 'integer') return 7;
        if (type === 'blob' || type === 'BLOB') return Buffer.alloc(32, 9);
        return `${name} of ${table}`;
      });
      db.prepare(`insert into ${table} values (${values.map(() => '?').join(', ')})`).run(...values);
    }
    db.close();
    return tables;
  }

  function rowsOf(dataDir: string, table: string): unknown[] {
    const db = openDatabase(dataDir);
    try {
      return db.prepare(`select * from ${table}`).all();
    } finally {
      db.close();
    }
  }
});

/** The frames of a file as they stand in it. */
function framesOf(bytes: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = bytes.indexOf('\n') + 1; at < bytes.length; ) {
    const end = at + 8 + bytes.readUInt32BE(at);
    frames.push(bytes.subarray(at, end));
    at = end;
  }
  return frames;
}
