import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SignerPeer, SignerTransport } from '../../../signer/call.ts';
import type { SignerContext } from '../../../signer/context.ts';
import { askStatus } from '../../../signer/coordinate-status.ts';
import { createFreezeBook } from '../../../signer/freeze-book.ts';
import { createKek, createKeyEncryption } from '../../../signer/kek.ts';
import { type StatusPage, status, statusSchema } from '../../../signer/status.ts';
import { openSignerStore, type SignerStore } from '../../../signer/store.ts';
import { BODY_BYTES_MAX } from '../../../signer/wire.ts';

const KEYS = 1_203;
const name = (index: number) => `ckey_${String(index).padStart(5, '0')}`;

describe('the status of a signer with many keys', () => {
  let dataDir: string;
  let store: SignerStore;
  const pages: StatusPage[] = [];
  /** Calls the operation itself, without a network between. */
  const direct = {
    async call(_peer: SignerPeer, { body }: { body: object }) {
      const page = await status(context(), { body: statusSchema.parse(body) });
      pages.push(page);
      return JSON.parse(JSON.stringify(page));
    },
  } as unknown as SignerTransport;
  const peer = { party: 1 } as SignerPeer;
  const context = () =>
    ({
      party: 1,
      engine: { build: 'wasm' },
      store,
      freezes: createFreezeBook({ store }),
      kekRotation: { status: () => ({ current: 'kek', earlier: [] }) },
      backup: { status: () => null },
    }) as unknown as SignerContext;

  beforeAll(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'purser-status-'));
    store = openSignerStore({
      dataDir,
      party: 1,
      engineVersion: 'v1',
      keyEncryption: createKeyEncryption([createKek(randomBytes(32))]),
      now: () => new Date(),
    });
    const share = { publicKey: randomBytes(65), chainCode: randomBytes(32) };
    for (let index = 0; index < KEYS; index += 1) {
      store.reserveKey({ keyId: name(index), sessionId: `session ${index}` });
      store.putShare({ keyId: name(index), share: Uint8Array.of(1), ...share });
      store.activateKey(name(index));
    }
    for (const keyId of [name(0), name(499), name(500), name(KEYS - 1), 'zzz'])
      store.ban({ keyId, party: 2, reason: 'cheated' });
  });
  afterAll(() => {
    store.close();
    rmSync(dataDir, { recursive: true, force: true });
  });

  it('comes in pages that are short enough, and is whole: each key once, in order, and each ban', async () => {
    const told = await askStatus(direct, peer);
    expect(told.keys.map(({ keyId }) => keyId)).toEqual(Array.from({ length: KEYS }, (_, index) => name(index)));
    expect(told.bans.map(({ keyId }) => keyId).sort()).toEqual([name(0), name(499), name(500), name(KEYS - 1), 'zzz']);
    expect('next' in told).toBe(false);
    expect(pages).toHaveLength(3);
    for (const page of pages) expect(JSON.stringify(page).length).toBeLessThan(BODY_BYTES_MAX / 2);
  });

  it('of a signer that never comes to an end is not waited for', async () => {
    const endless = {
      call: async () => ({ party: 1, keys: [], bans: [], limits: [], next: 'again' }),
    } as unknown as SignerTransport;
    await expect(askStatus(endless, peer)).rejects.toThrow(/signer 1 tells of more keys than there can be/);
  });
});
