import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createKek, createKeyEncryption } from '../../../signer/kek.ts';
import { createNonceRecord } from '../../../signer/nonces.ts';
import { createSessionTable } from '../../../signer/sessions.ts';
import { openSignerStore } from '../../../signer/store.ts';

describe('sealing', () => {
  it('finds every flipped bit, in what was sealed and in what it was sealed for', () => {
    const kek = createKek(randomBytes(32));
    const plain = fc.uint8Array({ minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(plain, plain, fc.nat(), (secret, context, bit) => {
        const sealed = kek.seal(secret, context);
        expect(Buffer.from(kek.open(sealed, context))).toEqual(Buffer.from(secret));
        for (const bytes of [sealed, context]) {
          const at = bit % (bytes.length * 8);
          bytes[at >> 3]! ^= 1 << (at & 7);
          expect(() => kek.open(sealed, context)).toThrow();
          bytes[at >> 3]! ^= 1 << (at & 7);
        }
      }),
    );
  });
});

describe('the store of a signer', () => {
  let dataDir = '';
  const kek = randomBytes(32);
  const open = (changes: { party?: number; kek?: Uint8Array; engineVersion?: string } = {}) =>
    openSignerStore({
      dataDir,
      party: changes.party ?? 1,
      engineVersion: changes.engineVersion ?? 'v1',
      keyEncryption: createKeyEncryption([createKek(changes.kek ?? kek)]),
      now: () => new Date(),
    });
  const share = { share: Uint8Array.of(1, 2, 3), publicKey: randomBytes(65), chainCode: randomBytes(32) };

  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'purser-store-'));
  });
  afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

  it('keeps a share over a restart, for the same party and the same key-encryption key only', () => {
    const store = open();
    store.reserveKey({ keyId: 'k', sessionId: 's' });
    store.putShare({ keyId: 'k', ...share });
    store.activateKey('k');
    store.close();
    const again = open();
    expect(Buffer.from(again.getShare('k').share)).toEqual(Buffer.from(share.share));
    expect(again.countKeys()).toBe(1);
    again.close();
    for (const changes of [{ party: 2 }, { kek: randomBytes(32) }]) {
      const other = open(changes);
      expect(() => other.getShare('k')).toThrow(/stored share of key k, epoch 1, does not open/);
      other.close();
    }
    const newer = open({ engineVersion: 'v2' }); // each row says what it was sealed under
    expect(newer.getShare('k').epoch).toBe(1);
    newer.close();
  });

  it('takes a key id once, also when the key was given up, and gives up what a crash left half-made', () => {
    const store = open();
    store.reserveKey({ keyId: 'k', sessionId: 's' });
    store.close();
    const again = open();
    expect(again.stateOf('k')).toBe('abandoned');
    expect(() => again.reserveKey({ keyId: 'k', sessionId: 't' })).toThrow(/was used before/);
    expect(() => again.activateKey('k')).toThrow(/is not stored/);
    again.close();
  });

  it('keeps a new epoch beside the one in use, drops what an earlier run left, and erases what came before', () => {
    const store = open();
    store.reserveKey({ keyId: 'k', sessionId: 's' });
    store.putShare({ keyId: 'k', ...share });
    store.activateKey('k');
    const made = (sessionId: string) => ({ ...share, keyId: 'k', complete: true, sessionId, atMs: 5 });
    store.putEpoch({ ...made('lost'), epoch: 3 });
    store.putEpoch({ ...made('t'), epoch: 2, share: Uint8Array.of(7) });
    expect(store.epochsOf('k')).toMatchObject([
      { epoch: 1, state: 'active', sessionId: 's', complete: true },
      { epoch: 2, state: 'stored', sessionId: 't', complete: true, createdAtMs: 5 },
    ]);
    expect(store.getShare('k').epoch).toBe(1); // what is not in use is not taken
    expect(store.activateEpoch({ keyId: 'k', epoch: 2, sessionId: 'lost' })).toBe(false);
    expect(store.activeEpochs('k')).toEqual([1]);
    expect(store.activateEpoch({ keyId: 'k', epoch: 2, sessionId: 't' })).toBe(true);
    expect(store.activeEpochs('k')).toEqual([2, 1]);
    expect(() => store.putEpoch({ ...made('u'), epoch: 2 })).toThrow(); // one in use is never replaced
    store.eraseEpochsBelow({ keyId: 'k', epoch: 2 });
    expect(store.epochsOf('k')).toHaveLength(1);
    expect([...store.getShare('k').share]).toEqual([7]);
    store.close();
  });

  it('takes a repaired key up without records, unless its id is in use for another or was given up with its share', () => {
    const store = open();
    const made = { ...share, epoch: 4, complete: true, sessionId: 'r', atMs: 5, repaired: { ownerKey: 'owner' } };
    store.putEpoch({ ...made, keyId: 'unknown' });
    store.reserveKey({ keyId: 'used-up', sessionId: 'a' });
    expect(() => store.putEpoch({ ...made, keyId: 'used-up' })).toThrow(/is not taken up again/);
    store.abandonKey({ sessionId: 'a' });
    store.putEpoch({ ...made, keyId: 'used-up' });
    expect(store.listKeys()).toMatchObject([
      { keyId: 'unknown', ownerKey: 'owner', hasRecords: false, epochs: [{ epoch: 4, state: 'stored' }] },
      { keyId: 'used-up', ownerKey: 'owner', hasRecords: false },
    ]);
    store.reserveKey({ keyId: 'given-up', sessionId: 'b' });
    store.putShare({ keyId: 'given-up', ...share });
    store.abandonKey({ sessionId: 'b' });
    expect(store.canTakeUp('given-up')).toBe(false);
    expect(() => store.putEpoch({ ...made, keyId: 'given-up' })).toThrow(/is not taken up again/);
    store.close();
  });

  it('erases the share of a key that is given up, and never gives up one in use', () => {
    const store = open();
    for (const keyId of ['k', 'used']) {
      store.reserveKey({ keyId, sessionId: `s-${keyId}` });
      store.putShare({ keyId, ...share });
    }
    store.activateKey('used');
    for (const keyId of ['k', 'used']) store.abandonKey({ sessionId: `s-${keyId}` });
    expect(() => store.getShare('k')).toThrow(/has no key k/);
    expect(store.stateOf('used')).toBe('active');
    expect(store.getShare('used').epoch).toBe(1);
    store.close();
  });

  it('remembers bans', () => {
    const store = open();
    store.ban({ keyId: 'k', party: 3, reason: 'r' });
    store.ban({ keyId: 'k', party: 3, reason: 'again' });
    store.close();
    const again = open();
    expect(again.isBanned({ keyId: 'k', party: 3 })).toBe(true);
    expect(again.isBanned({ keyId: 'k', party: 2 })).toBe(false);
    again.close();
  });

  it('belongs to one process at a time', () => {
    const store = open();
    expect(() => open()).toThrow(/cannot be opened .*is another signer process using it\?/);
    store.close();
  });
});

describe('limits of a signer', () => {
  it('drop a run that takes too long', () => {
    vi.useFakeTimers();
    const dropped: object[] = [];
    const close = vi.fn();
    const table = createSessionTable({ now: () => new Date(), onExpired: (expired) => dropped.push(expired) });
    table.open({ id: 'a', kind: 'sign' });
    table.open({ id: 'b', kind: 'keygen' });
    table.park('a', { close });
    vi.advanceTimersByTime(30_000);
    expect(dropped).toEqual([]);
    vi.advanceTimersByTime(5_000);
    expect(dropped).toEqual([{ id: 'a', kind: 'sign' }]);
    expect(close).toHaveBeenCalledOnce();
    vi.advanceTimersByTime(90_000);
    expect(dropped).toHaveLength(2);
    table.stop();
    vi.useRealTimers();
  });

  it('refuse more runs than the limit, and no run id counts twice', () => {
    const session = { closed: 0, close: () => void session.closed++ };
    const table = createSessionTable({ now: () => new Date(), onExpired: () => undefined });
    table.open({ id: 'a', kind: 'keygen' });
    table.open({ id: 'b', kind: 'keygen' });
    expect(() => table.open({ id: 'c', kind: 'keygen' })).toThrow(/2 keygen sessions are open already/);
    table.open({ id: 'd', kind: 'sign' });
    table.park('a', session);
    expect(table.take('a', 'keygen')).toBe(session);
    expect(() => table.take('a', 'keygen')).toThrow(/working on another message/);
    table.end('a');
    table.park('a', session);
    expect(session.closed).toBe(1);
    expect(() => table.open({ id: 'a', kind: 'sign' })).toThrow(/was used before/);
    expect(() => table.take('a', 'keygen')).toThrow(/is not open here/);
    table.stop();
    expect(table.count('keygen') + table.count('sign')).toBe(0);
  });

  it('end the run that is open for a key when another is opened for it, and no run for another key', () => {
    const session = () => ({
      closed: 0,
      close() {
        this.closed++;
      },
    });
    const [first, other] = [session(), session()];
    const table = createSessionTable({ now: () => new Date(), onExpired: () => undefined });
    table.open({ id: 'a', kind: 'refresh', about: 'k' });
    table.park('a', first);
    table.open({ id: 'b', kind: 'refresh', about: 'l' });
    table.park('b', other);
    table.open({ id: 'c', kind: 'refresh', about: 'k' });
    expect([first.closed, other.closed, table.count('refresh')]).toEqual([1, 0, 2]);
    expect(() => table.open({ id: 'd', kind: 'refresh', about: 'm' })).toThrow(/2 refresh sessions are open already/);
    table.stop();
  });

  it('take a nonce once for as long as its request could be sent again', () => {
    const nonces = createNonceRecord();
    const at = (seconds: number) => new Date(seconds * 1000);
    nonces.use('n', at(0));
    expect(() => nonces.use('n', at(59))).toThrow(/was sent before/);
    expect(() => nonces.use('n', at(60))).not.toThrow();
  });
});
