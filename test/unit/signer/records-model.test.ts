import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BitcoinTransaction, SignPayload } from '../../../shared/domain/receipt.ts';
import { createKek, createKeyEncryption } from '../../../signer/kek.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import { Refusal } from '../../../signer/refusal.ts';
import { useOf } from '../../../signer/slot.ts';
import { openSignerStore, type SignerStore } from '../../../signer/store.ts';
import { BITCOIN_RECIPIENT, NILE, REGTEST, TRON_RECIPIENT } from '../../support/family-payments.ts';

const WALLET = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080';
const TRON_WALLET = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';
/** What a coin is worth, and what a liar says. */
const VALUES = ['1000', '900'] as const;
const COINS = 6;
const PAYMENTS = 3;
const EXPIRES_MS = 10_000;

const home = mkdtempSync(join(tmpdir(), 'purser-records-model-'));
const stores = new Map<Party, SignerStore>();
const at = (party: Party) => stores.get(party)!;
let nowMs = 1_800_000_000_000;
/** Another one each time, so that there is little to be merged. */
let keyId = '';

function open(party: Party): void {
  const store = openSignerStore({
    ...{ dataDir: join(home, `${party}`), party, engineVersion: 'v1', now: () => new Date(nowMs) },
    keyEncryption: createKeyEncryption([createKek(Buffer.alloc(32, party))]),
  });
  stores.set(party, store);
}
beforeAll(() => PARTIES.forEach(open));
afterAll(() => {
  for (const party of PARTIES) at(party).close();
  rmSync(home, { recursive: true, force: true });
});

/** A signer that lost its records: it takes over what both others have before it signs again. */
function loseAndMerge(party: Party): void {
  at(party).close();
  const db = new DatabaseSync(join(home, `${party}`, 'signer.sqlite'));
  db.exec('delete from slots; delete from payments');
  db.close();
  open(party);
  for (const other of PARTIES.filter((each) => each !== party)) {
    const all = { keyId, after: 0, limit: 100_000 };
    at(party).transaction(() => {
      at(party).mergeSlots({ keyId, rows: at(other).slotsPage(all).rows });
      at(party).mergePayments({ keyId, rows: at(other).paymentsPage(all).rows });
    });
  }
}

/** One signature between two signers, as a coordinator leads it: each step may be the last. */
interface Run {
  pair: readonly [Party, Party];
  payload: SignPayload;
  transactionId: string;
  replaces: readonly string[];
  steps: number;
}
const useIn = ({ payload, transactionId, replaces }: Run) =>
  useOf({
    ...{ keyId, payload, transactionId, replaces, decisionId: 'dec' },
    address: payload.kind === 'bitcoin-input' ? WALLET : TRON_WALLET,
  });

/** Both check when they are asked; whoever began gives its part away first. @returns whether there is a signature */
function step(run: Run): boolean {
  const [initiator, joiner] = run.pair;
  const bind = (party: Party) => at(party).transaction(() => at(party).bindUse(useIn(run)));
  run.steps += 1;
  if (run.steps === 1) at(initiator).checkUse(useIn(run));
  if (run.steps === 2) at(joiner).checkUse(useIn(run));
  if (run.steps === 3) bind(initiator);
  if (run.steps === 4) bind(joiner);
  return run.steps === 4;
}

const pairs = PARTIES.flatMap((a) => PARTIES.filter((b) => b !== a).map((b) => [a, b] as const));
const action = <T>(begin: fc.Arbitrary<T>) =>
  fc.oneof(
    { weight: 5, arbitrary: fc.record({ begin, pair: fc.constantFrom(...pairs) }) },
    { weight: 24, arbitrary: fc.record({ advance: fc.nat(100) }) },
    { weight: 1, arbitrary: fc.record({ abort: fc.nat(100) }) },
    { weight: 1, arbitrary: fc.record({ lose: fc.constantFrom(...PARTIES) }) },
    { weight: 2, arbitrary: fc.record({ waitMs: fc.integer({ min: 1, max: EXPIRES_MS }) }) },
  );
type Action<T> =
  fc.Arbitrary<T> extends infer _
    ? { begin: T; pair: Run['pair'] } | { advance: number } | { abort: number } | { lose: Party } | { waitMs: number }
    : never;

/** Lets a coordinator do what it likes with honest signers. @param onSigned called with every signature that it gets */
function play<T>(
  actions: readonly Action<T>[],
  p: { make(begin: T): Omit<Run, 'pair' | 'steps'>; onSigned(run: Run): void },
): void {
  keyId = `key_${randomBytes(8).toString('hex')}`;
  let running: Run[] = [];
  const end = (ended: (run: Run) => boolean) => {
    running = running.filter((run) => !ended(run));
  };
  for (const each of actions) {
    nowMs += 1;
    if ('begin' in each) running.push({ ...p.make(each.begin), pair: each.pair, steps: 0 });
    if ('abort' in each) running.splice(each.abort % (running.length || 1), 1);
    if ('waitMs' in each) nowMs += each.waitMs;
    if ('lose' in each) {
      // Whoever lost its store runs anew: its sessions are over.
      end(({ pair }) => pair.includes(each.lose));
      loseAndMerge(each.lose);
    }
    if (!('advance' in each) || running.length === 0) continue;
    const run = running[each.advance % running.length]!;
    try {
      if (step(run)) {
        end((other) => other === run);
        p.onSigned(run);
      }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refused += 1;
      end((other) => other === run);
    }
  }
}
let refused = 0;

describe('the records of three signers, over any pairs and whatever a coordinator does', { timeout: 240_000 }, () => {
  it('let no two transactions be mined that pay one payment twice, or two by one coin, or a fee that nobody saw', () => {
    const begin = fc.record({
      coins: fc.oneof(
        { weight: 3, arbitrary: fc.constant('own' as const) },
        { weight: 2, arbitrary: fc.uniqueArray(fc.nat(COINS - 1), { minLength: 1, maxLength: 3 }) },
      ),
      lies: fc.array(fc.nat(12), { minLength: 3, maxLength: 3 }),
      payment: fc.nat(PAYMENTS - 1),
      isNoop: fc.nat(5).map((n) => n === 0),
      input: fc.nat(2),
    });
    const counts = { signed: 0, minable: 0 };
    fc.assert(
      fc.property(fc.array(action(begin), { minLength: 40, maxLength: 120, size: 'max' }), (actions) => {
        const txids = Array.from({ length: COINS }, () => randomBytes(32).toString('hex'));
        const payments = Array.from({ length: PAYMENTS }, () => `txn_${randomBytes(8).toString('hex')}`);
        /** Valid signatures by transaction, whatever was said of its coins' values: they are not part of it. */
        const bodies = new Map<
          string,
          { payment: string | null; coins: string[]; signed: Set<number>; lied: boolean }
        >();
        play(actions, {
          make({ coins, lies, payment, isNoop, input }) {
            const spent = coins === 'own' ? [2 * payment, 2 * payment + 1] : coins;
            const inputs = spent.map((coin, i) => {
              return { txid: txids[coin]!, vout: 0, valueSat: VALUES[lies[i] === 0 ? 1 : 0] };
            });
            const outputs = [{ address: isNoop ? WALLET : BITCOIN_RECIPIENT, valueSat: `${100 + payment}` }];
            const transaction: BitcoinTransaction = { chain: REGTEST, inputs, outputs, lockTime: 0 };
            const payload = { kind: 'bitcoin-input' as const, input: input % inputs.length, transaction };
            return { payload, transactionId: payments[payment]!, replaces: [] };
          },
          onSigned({ payload, transactionId }) {
            if (payload.kind !== 'bitcoin-input') return;
            counts.signed += 1;
            const { inputs, outputs } = payload.transaction;
            // A signature over a value that the coin has not is worth nothing.
            if (inputs[payload.input]!.valueSat !== VALUES[0]) return;
            const coins = inputs.map(({ txid }) => txid);
            const payment = outputs[0]!.address === WALLET ? null : transactionId;
            const id = JSON.stringify([coins, outputs, payment && transactionId]);
            const body = bodies.get(id) ?? { payment, coins, signed: new Set(), lied: false };
            body.signed.add(payload.input);
            body.lied ||= inputs.some(({ valueSat }) => valueSat !== VALUES[0]);
            bodies.set(id, body);
            const minable = [...bodies.values()].filter((each) => each.signed.size === each.coins.length);
            if (body.signed.size === coins.length) counts.minable += 1;
            expect(minable.filter(({ lied }) => lied)).toEqual([]);
            const paying = minable.filter((each) => each.payment !== null);
            for (const one of paying) {
              for (const other of paying) {
                const isShared = one.coins.some((coin) => other.coins.includes(coin));
                // Of one payment: only one of them can be mined. Of two: they have no coin in common.
                expect(isShared).toBe(one.payment === other.payment);
              }
            }
          },
        });
      }),
      { numRuns: 60 },
    );
    // Much was tried, and some of it came to something.
    expect(counts.signed).toBeGreaterThan(100);
    expect(counts.minable).toBeGreaterThan(20);
    expect(refused).toBeGreaterThan(100);
  });

  it('let no two transactions of one payment be good at a time where they expire', () => {
    const begin = fc.record({
      payment: fc.nat(PAYMENTS - 1),
      names: fc.nat(3),
      livesMs: fc.integer({ min: 1, max: EXPIRES_MS }),
    });
    let signed = 0;
    fc.assert(
      fc.property(fc.array(action(begin), { minLength: 40, maxLength: 120, size: 'max' }), (actions) => {
        const payments = Array.from({ length: PAYMENTS }, () => `txn_${randomBytes(8).toString('hex')}`);
        const slots = new Map(payments.map((id): [string, string[]] => [id, []]));
        const good = new Map<string, { slot: string; expirationMs: number }[]>();
        play(actions, {
          make({ payment, names, livesMs }) {
            const transactionId = payments[payment]!;
            const expirationMs = nowMs + livesMs;
            const transaction = {
              ...{
                chain: NILE,
                from: TRON_WALLET,
                refBlockBytes: '0000',
                refBlockHash: randomBytes(8).toString('hex'),
              },
              contract: { type: 'transfer' as const, to: TRON_RECIPIENT, amountSun: '5' },
              ...{ timestampMs: nowMs, expirationMs, feeLimitSun: '0', bandwidthSun: '0' },
            };
            // Most receipts name all that the payment was to be before, as the service's do.
            const replaces = names === 0 ? [] : [...slots.get(transactionId)!];
            const run = { payload: { kind: 'tron-transaction' as const, transaction }, transactionId, replaces };
            slots.get(transactionId)!.push(useIn({ ...run, pair: [1, 2], steps: 0 }).slot);
            return run;
          },
          onSigned({ payload, transactionId }) {
            if (payload.kind !== 'tron-transaction') return;
            signed += 1;
            const { expirationMs, refBlockHash } = payload.transaction;
            const still = (good.get(transactionId) ?? []).filter((each) => each.expirationMs > nowMs);
            const all = [...still.filter(({ slot }) => slot !== refBlockHash), { slot: refBlockHash, expirationMs }];
            good.set(transactionId, all);
            if (expirationMs > nowMs) expect(all).toHaveLength(1);
          },
        });
      }),
      { numRuns: 60 },
    );
    expect(signed).toBeGreaterThan(50);
  });

  it('hold a payment to the place where it was signed also where a signer lost its records meanwhile', () => {
    keyId = `key_${randomBytes(8).toString('hex')}`;
    const transactionId = `txn_${randomBytes(8).toString('hex')}`;
    const runAt = (txid: string, pair: Run['pair'], replaces: string[] = []): Run => {
      const outputs = [{ address: BITCOIN_RECIPIENT, valueSat: '900' }];
      const transaction = { chain: REGTEST, inputs: [{ txid, vout: 0, valueSat: '1000' }], outputs, lockTime: 0 };
      return { payload: { kind: 'bitcoin-input', input: 0, transaction }, transactionId, replaces, pair, steps: 0 };
    };
    const [a, b] = [randomBytes(32).toString('hex'), randomBytes(32).toString('hex')];
    const finish = (run: Run) => {
      while (!step(run)) nowMs += 1;
    };
    const first = runAt(a, [1, 3]);
    step(first);
    step(first);
    finish(runAt(b, [2, 3]));
    nowMs += 1;
    // Signer 1 gives its part away for nothing, later than the others signed: signer 3 knows better.
    step(first);
    expect(() => step(first)).toThrow(/has slot/);
    loseAndMerge(3);
    for (const pair of [
      [3, 1],
      [1, 3],
    ] as const) {
      expect(() => finish(runAt(a, pair))).toThrow(/must say that it replaces/);
    }
    // The one that was signed is signed again by who knows it, and by others with a receipt that gives the other one up.
    const { slot } = useIn(runAt(a, [1, 2]));
    for (const pair of [
      [3, 1],
      [2, 3],
    ] as const)
      finish(runAt(b, pair, [slot]));
  });
});
