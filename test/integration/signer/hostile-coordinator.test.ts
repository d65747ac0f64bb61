import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { recoverAddress } from 'viem';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RefusedBySigner, type SignerTransport } from '../../../signer/call.ts';
import type { SignRequest } from '../../../signer/coordinate-sign.ts';
import { digestOf } from '../../../signer/digest/payload.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import { describeOutcome, type HostedRuns, startRuns } from '../../support/hosted-runs.ts';
import { type HostedSigners, hostSigners } from '../../support/hosted-signers.ts';

/** Sequences of about ten requests by a coordinator that keeps to no rule. */
const SEQUENCES = 120;
/** Runs in which it changes one thing. */
const FAULTS = 400;
/** Signatures that one signer has under way, see signer/sessions.ts. */
const RUNS_MAX = 256;
const TIMEOUT_MS = 10_000;

let signers: HostedSigners;
let runs: HostedRuns;

beforeAll(async () => {
  signers = await hostSigners();
  runs = await startRuns(signers, signers.transport);
});
afterAll(async () => {
  await signers?.stop();
  runs?.printTable();
});

const call = (party: Party, path: '/v1/sign/start' | '/v1/sign/join' | '/v1/sign/step' | '/v1/abort', p: Call) =>
  signers.transport.call<Said>(signers.peer(party), { path, session: p.session, body: p.body, timeoutMs: TIMEOUT_MS });
interface Call {
  session: string;
  body: object;
}
interface Said {
  message?: string;
  signature?: `0x${string}`;
  digest?: `0x${string}`;
}

/** None of the signers did wrong, so none may say that another did. */
function expectNobodyBlamed(): void {
  expect(signers.broken).toEqual([]);
  for (const party of PARTIES) expect(signers.signer(party).context.store.listBans()).toEqual([]);
}

function expectRefusal(error: unknown): void {
  expect(error).toBeInstanceOf(RefusedBySigner);
  const { code, culprit } = error as RefusedBySigner;
  expect(culprit).toBeNull();
  expect(code).not.toBe('internal');
}

const openRuns = () => PARTIES.map((party) => signers.signer(party).context.sessions.count('sign'));

/** The four requests of a signature. */
const operations = ['/v1/sign/start', '/v1/sign/join', '/v1/sign/step', '/v1/sign/step'] as const;
/** What it may do with one request. */
const twists = [
  'to the third',
  'in the other run',
  'what was said in the other run',
  'what was said before',
  'the other payment',
  'abort',
] as const;
/** What it may do with one message on its way. */
const faults = {
  'drop it and send nothing': () => '',
  'send noise': (_: string, x: number) => randomBytes(Math.floor(x * 4000)).toString('base64url'),
  'change a character': (text: string, x: number) => {
    const i = Math.floor(x * text.length);
    return `${text.slice(0, i)}${text[i] === 'e' ? 'f' : 'e'}${text.slice(i + 1)}`;
  },
  'cut it short': (text: string, x: number) => text.slice(0, Math.floor(x * text.length)),
  'send that of another run': (_: string, x: number, other: readonly string[]) => other[Math.floor(x * other.length)]!,
  'send it as it is': (text: string) => text,
} as const;

describe('a coordinator that owns no signer', () => {
  it('and changes, drops or exchanges one message gets nothing, and makes no signer blame another', async () => {
    const heard: string[] = [];
    const plan = fc.record({
      fault: fc.constantFrom(...(Object.keys(faults) as (keyof typeof faults)[])),
      hop: fc.constantFrom(1, 2, 3),
      x: fc.nat({ max: 9999 }).map((n) => n / 10_000),
      pair: fc.constantFrom<readonly [Party, Party]>([1, 2], [2, 3], [3, 1], [2, 1]),
    });
    heard.push(...(await messagesOfOneRun()));
    await fc.assert(
      fc.asyncProperty(plan, async ({ fault, hop, x, pair }) => {
        let passed = 0;
        let changed = false;
        const bending: SignerTransport = {
          ...signers.transport,
          async call<T>(...[peer, p]: Parameters<SignerTransport['call']>) {
            const answer = await signers.transport.call<T & Said>(peer, p);
            if (answer.message === undefined || ++passed !== hop) return answer;
            const message = faults[fault](answer.message, x, heard);
            changed = message !== answer.message;
            return { ...answer, message };
          },
        };
        const request = await runs.freshRequest();
        const outcome = await runs.sign(pair, request, bending);
        runs.note(`${fault}\thop ${hop}\t${describeOutcome(outcome)}`);
        expectNobodyBlamed();
        if ('signature' in outcome) {
          // Characters that carry no bits may change.
          if (fault !== 'change a character') expect(changed).toBe(false);
          return;
        }
        expectRefusal(outcome.error);
        for (const party of pair) {
          if (party !== (outcome.error as RefusedBySigner).party) continue;
          await expect(runs.poke(party, outcome.session)).rejects.toMatchObject({ code: 'unknown_session' });
        }
      }),
      { numRuns: FAULTS, endOnFailure: true },
    );
    await expect.poll(openRuns).toEqual([0, 0, 0]);
  }, 600_000);

  async function messagesOfOneRun(): Promise<string[]> {
    const messages: string[] = [];
    const listening: SignerTransport = {
      ...signers.transport,
      async call<T>(...[peer, p]: Parameters<SignerTransport['call']>) {
        const answer = await signers.transport.call<T & Said>(peer, p);
        if (answer.message !== undefined) messages.push(answer.message);
        return answer;
      },
    };
    await runs.sign([1, 2], await runs.freshRequest(), listening);
    return messages;
  }

  it('and asks two signers for different things makes neither sign, and neither blame the other', async () => {
    const ways: ((request: SignRequest, other: SignRequest) => SignRequest)[] = [
      (_, other) => other,
      (request, other) => ({ ...request, receipt: other.receipt }),
      (request, other) => ({ ...request, payload: other.payload }),
    ];
    for (const bend of ways) {
      for (const [a, b] of [
        [1, 2],
        [2, 3],
        [3, 1],
      ] as const) {
        const [request, other] = [await runs.freshRequest(), await runs.freshRequest()];
        const double: SignerTransport = {
          ...signers.transport,
          call(peer, p) {
            const body = p.path === '/v1/sign/join' ? { ...p.body, ...bend(request, other) } : p.body;
            return signers.transport.call(peer, { ...p, body });
          },
        };
        const outcome = await runs.sign([a, b], request, double);
        expect('error' in outcome).toBe(true);
        if ('error' in outcome) expectRefusal(outcome.error);
        expectNobodyBlamed();
      }
    }
  });

  it('and sends anything to anybody in any order gets no signature but over what both were asked to sign', async () => {
    const move = fc.record({
      /** Of the four requests of a signature: who begins, joins, releases, concludes. */
      part: fc.nat({ max: 3 }),
      run: fc.nat({ max: 1 }),
      twist: fc.oneof(
        { weight: 6, arbitrary: fc.constant('none') },
        { weight: 1, arbitrary: fc.constantFrom(...twists) },
      ),
      x: fc.nat({ max: 99 }),
    });
    const tidy = fc.array(move, { minLength: 8, maxLength: 8 }).map((moves) => {
      const next = [0, 0];
      // Each run in order, the two of them in any.
      return moves.map((each) => {
        const run = next[each.run]! > 3 ? 1 - each.run : each.run;
        return { ...each, run, part: next[run]!++ };
      });
    });
    const plan = fc.record({
      tidy,
      wild: fc.array(move, { maxLength: 4 }),
      pair: fc.shuffledSubarray([...PARTIES], { minLength: 3 }),
      atOnce: fc.nat({ max: 3 }).map((k) => k === 0),
    });
    await fc.assert(
      fc.asyncProperty(plan, async ({ tidy, wild, pair: [a, b, third], atOnce }) => {
        const sessions = [0, 1].map(() => randomBytes(32).toString('hex'));
        const payments = [await runs.freshRequest(), await runs.freshRequest()];
        const said: [string[], string[]] = [['noise'], ['noise']];
        const perform = async ({ part, run, twist, x }: (typeof wild)[number]) => {
          const to = twist === 'to the third' ? third! : part % 2 === 0 ? a! : b!;
          const counterparty = part % 2 === 0 ? b! : a!;
          const session = sessions[twist === 'in the other run' ? 1 - run : run]!;
          const heard = said[(twist === 'what was said in the other run' ? 1 - run : run) as 0 | 1];
          const message = twist === 'what was said before' ? heard[x % heard.length]! : heard.at(-1)!;
          const payment = payments[twist === 'the other payment' ? 1 - run : run]!;
          const path = twist === 'abort' ? '/v1/abort' : operations[part]!;
          const bodies = [
            { ...payment, counterparty },
            { ...payment, counterparty, epoch: 1, message },
            { message },
            { message },
          ];
          const body = path === '/v1/abort' ? {} : bodies[part]!;
          try {
            const answer = await call(to, path, { session, body });
            if (answer.message !== undefined) said[run as 0 | 1].push(answer.message);
            if (answer.signature !== undefined) await expectSignature(answer, payments);
            runs.note(`anything\t${path}\t${answer.signature ? 'signed' : 'accepted'}`);
          } catch (error) {
            expectRefusal(error);
            runs.note(`anything\t${path}\t${(error as RefusedBySigner).code}`);
          }
        };
        const moves = [...tidy];
        for (const each of wild) moves.splice(each.x % (moves.length + 1), 0, each);
        if (atOnce) await Promise.all(moves.map(perform));
        else for (const each of moves) await perform(each);
        expectNobodyBlamed();
        const abort = (session: string) => PARTIES.map((party) => call(party, '/v1/abort', { session, body: {} }));
        await Promise.all(sessions.flatMap(abort));
        expect(openRuns()).toEqual([0, 0, 0]);
        expect(describeOutcome(await runs.sign([a!, third!], await runs.freshRequest()))).toBe('signed');
      }),
      { numRuns: SEQUENCES, endOnFailure: true },
    );
  }, 600_000);

  async function expectSignature({ signature, digest }: Said, payments: SignRequest[]): Promise<void> {
    expect(payments.map(({ payload, address }) => digestOf(payload, address))).toContain(digest);
    const v = 27 + Number.parseInt(signature!.slice(-2), 16);
    const address = await recoverAddress({
      hash: digest!,
      signature: `${signature!.slice(0, -2)}${v.toString(16)}` as `0x${string}`,
    });
    expect(address).toBe(payments[0]!.address);
  }

  it('and asks for the same step twice at once gets one answer', async () => {
    const request = await runs.freshRequest();
    const session = randomBytes(32).toString('hex');
    const first = await call(1, '/v1/sign/start', { session, body: { ...request, counterparty: 2 } });
    const join = { session, body: { ...request, counterparty: 1, epoch: 1, message: first.message } };
    const joined = await Promise.allSettled([call(2, '/v1/sign/join', join), call(2, '/v1/sign/join', join)]);
    expect(joined.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(1);
    for (const each of joined) if (each.status === 'rejected') expectRefusal(each.reason);
    expectNobodyBlamed();
    await Promise.all(([1, 2] as const).map((party) => call(party, '/v1/abort', { session, body: {} })));
    expect(openRuns()).toEqual([0, 0, 0]);
  });

  it('and opens more runs than a signer has room for harms nobody else, and that one only until they end', async () => {
    const { sessions } = signers.signer(1).context;
    const fresh = () => randomBytes(32).toString('hex');
    const filled = Array.from({ length: RUNS_MAX - 1 }, fresh);
    for (const id of filled) sessions.open({ id, kind: 'sign' });
    const body = { ...(await runs.freshRequest()), counterparty: 2 };
    const last = fresh();
    await expect(call(1, '/v1/sign/start', { session: last, body })).resolves.toHaveProperty('message');
    for (let i = 0; i < 20; i++) {
      await expect(call(1, '/v1/sign/start', { session: fresh(), body })).rejects.toMatchObject({ code: 'busy' });
    }
    expect(openRuns()).toEqual([RUNS_MAX, 0, 0]);
    expect(describeOutcome(await runs.sign([2, 3], await runs.freshRequest()))).toBe('signed');
    expect(await runs.sign([1, 3], await runs.freshRequest())).toMatchObject({ error: { code: 'busy', party: 1 } });
    await Promise.all([...filled, last].map((session) => call(1, '/v1/abort', { session, body: {} })));
    expect(openRuns()).toEqual([0, 0, 0]);
    expect(describeOutcome(await runs.sign([1, 3], await runs.freshRequest()))).toBe('signed');
    expectNobodyBlamed();
  }, 600_000);
});
