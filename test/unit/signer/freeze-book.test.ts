import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { type CryptoKey, generateKeyPair } from 'jose';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FreezeState } from '../../../shared/domain/freeze.ts';
import { signFreezeOrder } from '../../../shared/freeze-order.ts';
import type { SignerContext } from '../../../signer/context.ts';
import { refuseFrozen, setOperatorFreeze, takeFreeze } from '../../../signer/freeze.ts';
import { createFreezeBook } from '../../../signer/freeze-book.ts';
import { openDatabase } from '../../../signer/store/database.ts';
import { createFreezeStore } from '../../../signer/store/freezes.ts';

const nowMs = Date.parse('2026-03-01T00:00:00Z');
const now = () => new Date(nowMs);
const owner = { accountId: 'acct_1', agentId: 'agent_1' };
const directories: string[] = [];
let policy: { privateKey: CryptoKey; publicKey: CryptoKey };
beforeAll(async () => {
  policy = await generateKeyPair('EdDSA');
});
afterAll(() => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

/** Real store, real book, real operations; there is no network and no engine. */
function openSigner() {
  const dataDir = mkdtempSync(join(tmpdir(), 'purser-freeze-'));
  directories.push(dataDir);
  let db = openDatabase(dataDir);
  const contextOf = () =>
    ({
      party: 1,
      policyKey: policy.publicKey,
      freezes: createFreezeBook({ store: createFreezeStore({ db, now }) }),
      log: pino({ level: 'silent' }),
      now,
    }) as unknown as SignerContext;
  let context = contextOf();
  return {
    context: () => context,
    restart() {
      db.close();
      db = openDatabase(dataDir);
      context = contextOf();
    },
    close: () => db.close(),
  };
}
const order = (state: Partial<FreezeState>, key = policy.privateKey) =>
  signFreezeOrder(key, {
    state: { version: 1, installation: false, accounts: [], agents: [], ...state },
    now: now(),
  });
const refusal = (context: SignerContext) => {
  try {
    refuseFrozen(context, owner);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
};

describe('what a signer knows to be frozen', () => {
  it('is what the newest order says, in whichever order they come, also after a restart', async () => {
    const states = fc
      .array(
        fc.record({
          installation: fc.boolean(),
          accounts: fc.subarray(['acct_1', 'acct_2']),
          agents: fc.subarray(['agent_1', 'agent_2']),
        }),
        { minLength: 1, maxLength: 6 },
      )
      .map((list) => list.map((each, index) => ({ ...each, version: index + 1 })));
    const brought = states.chain((list) =>
      fc.tuple(fc.constant(list), fc.array(fc.constantFrom(...list), { minLength: 1 })),
    );
    await fc.assert(
      fc.asyncProperty(brought, fc.nat(), async ([, sent], restartAt) => {
        const signer = openSigner();
        let newest = 0;
        for (const [index, state] of sent.entries()) {
          newest = Math.max(newest, state.version);
          const answer = await takeFreeze(signer.context(), { body: { order: await order(state) } });
          expect(answer).toEqual({ version: newest });
          if (index === restartAt % sent.length) signer.restart();
        }
        const { installation, accounts, agents } = sent.find(({ version }) => version === newest)!;
        const isFrozen = installation || accounts.includes('acct_1') || agents.includes('agent_1');
        expect(refusal(signer.context()) !== undefined).toBe(isFrozen);
        signer.close();
      }),
      { numRuns: 30 },
    );
  });

  it('is named where it keeps something from being signed', async () => {
    const signer = openSigner();
    const said = async (state: Partial<FreezeState>) => {
      await takeFreeze(signer.context(), { body: { order: await order(state) } });
      return refusal(signer.context());
    };
    expect(await said({ version: 1, agents: ['agent_2'], accounts: ['acct_2'] })).toBeUndefined();
    expect(await said({ version: 2, agents: ['agent_1'] })).toMatch(/agent agent_1 is frozen$/);
    expect(await said({ version: 3, accounts: ['acct_1'] })).toMatch(/account acct_1 is frozen$/);
    expect(await said({ version: 4, installation: true })).toMatch(/the installation is frozen$/);
    expect(await said({ version: 5 })).toBeUndefined();
    signer.close();
  });

  it('is neither changed by another’s word, nor by two words of one version, nor kept by one far ahead of all others', async () => {
    const signer = openSigner();
    const take = async (signed: Promise<string>) =>
      takeFreeze(signer.context(), { body: { order: await signed } }).catch((error: unknown) => error);
    await take(order({ version: 5, accounts: ['acct_1', 'acct_2'] }));
    const { privateKey: stranger } = await generateKeyPair('EdDSA');
    expect(await take(order({ version: 6 }, stranger))).toMatchObject({ code: 'forbidden' });
    expect(await take(order({ version: 5 }))).toMatchObject({ code: 'freeze_outdated' });
    expect(await take(order({ version: 5, accounts: ['acct_2', 'acct_1'] }))).toEqual({ version: 5 });
    expect(await take(order({ version: nowMs + 3_600_001 }))).toMatchObject({ code: 'malformed' });
    expect(refusal(signer.context())).toMatch(/account acct_1/);
    expect(await take(order({ version: nowMs + 3_600_000 }))).toEqual({ version: nowMs + 3_600_000 });
    expect(refusal(signer.context())).toBeUndefined();
    signer.close();
  });

  it('is besides what the operator says: neither lifts the other’s, and both last', async () => {
    const signer = openSigner();
    const freeze = (reason: string | null) => setOperatorFreeze(signer.context(), { body: { reason } });
    expect(await freeze('the policy key was copied')).toMatchObject({
      operator: { reason: 'the policy key was copied', atMs: nowMs },
    });
    signer.restart();
    await takeFreeze(signer.context(), { body: { order: await order({ version: 9 }) } });
    expect(refusal(signer.context())).toMatch(/frozen by its operator \(the policy key was copied\)/);
    await takeFreeze(signer.context(), { body: { order: await order({ version: 10, installation: true }) } });
    expect(await freeze(null)).toMatchObject({ version: 10, installation: true, operator: null });
    signer.restart();
    expect(refusal(signer.context())).toMatch(/the installation is frozen/);
    signer.close();
  });
});
