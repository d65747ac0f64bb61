import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RefusedBySigner, type SignerTransport } from '../../../signer/call.ts';
import type { SignRequest } from '../../../signer/coordinate-sign.ts';
import { digestOf } from '../../../signer/digest/payload.ts';
import type { Party } from '../../../signer/parties.ts';
import { anyPlan, cheatIn, type Memory, type Plan, remembering, tricks } from '../../support/cheats.ts';
import { describeOutcome, type HostedRuns, type Outcome, startRuns } from '../../support/hosted-runs.ts';
import { type HostedSigners, hostSigners } from '../../support/hosted-signers.ts';
import { type HostileSigner, makeHostile } from '../../support/hostile-signer.ts';

const HOSTILE = 1;
/** Of each of the three messages that a signature takes. */
const CHEATS = 500;
/** Sealed on its own it would be larger than a request may be, so the coordinator itself cannot send it on. */
const TOO_LARGE = 'a body too large to be sent';

let signers: HostedSigners;
let hostile: HostileSigner;
let runs: HostedRuns;
const memory: Memory = new Map();
const bansOf = (party: Party) => signers.signer(party).context.store.listBans();
const forgive = (party: Party) =>
  signers.signer(party).context.store.liftBan({ keyId: runs.key.keyId, party: HOSTILE });

beforeAll(async () => {
  signers = await hostSigners();
  hostile = await makeHostile(signers.signer(HOSTILE).context, signers.transport);
  runs = await startRuns(signers, hostile.transport);
  hostile.cheat = remembering(memory);
  for (const honest of [2, 3] as const) {
    for (const pair of [[HOSTILE, honest] as const, [honest, HOSTILE] as const]) {
      expect(describeOutcome(await runs.sign(pair, await runs.freshRequest()))).toBe('signed');
    }
  }
});
afterAll(async () => {
  await signers?.stop();
  runs?.printTable();
});

/** Payment and nonce have the same number in all of these tests. */
const txnOf = ({ payload }: SignRequest) =>
  `txn_${payload.kind === 'evm-transaction' ? payload.transaction.nonce : ''}`;

/** What must be true after any trick: nothing signed but what was asked, and nobody blamed but who cheated. */
async function judge(p: { honest: Party; plan: Plan; request: SignRequest; outcome: Outcome; hop: number }) {
  const { honest, plan, outcome } = p;
  const { layer } = tricks[plan.trick];
  const bans = bansOf(honest);
  runs.note(`hop ${p.hop}\t${plan.trick}\t${describeOutcome(outcome)}${bans.length > 0 ? ', ban' : ''}`);
  expect(signers.broken).toEqual([]);
  if ('signature' in outcome) {
    // The coordinator has recovered it to the wallet, over the digest that it computed itself.
    expect(outcome.signature.digest).toBe(digestOf(p.request.payload, p.request.address));
    expect(bans).toEqual([]);
    return;
  }
  const { error } = outcome as { error: RefusedBySigner };
  if (plan.trick === TOO_LARGE && !(error instanceof RefusedBySigner)) return;
  expect(error).toBeInstanceOf(RefusedBySigner);
  expect(error.party).toBe(honest);
  expect(['bad_message', 'protocol_fault', 'oversize']).toContain(error.code);
  // What it signed is its own fault; what could have been changed on the way is nobody's.
  const signed = layer === 'message' && error.code !== 'oversize';
  expect(error.culprit).toBe(signed ? HOSTILE : null);
  await expect(runs.poke(honest, outcome.session)).rejects.toMatchObject({ code: 'unknown_session' });
  if (bans.length === 0) return;
  expect(signed).toBe(true);
  expect(bans).toMatchObject([{ keyId: runs.key.keyId, party: HOSTILE }]);
}

async function expectBanned(honest: Party): Promise<void> {
  hostile.cheat = undefined;
  for (const pair of [[HOSTILE, honest] as const, [honest, HOSTILE] as const]) {
    const refused = await runs.sign(pair, await runs.freshRequest());
    expect(refused).toMatchObject({ error: { code: 'banned_pair', party: honest } });
  }
}

describe('a signer that cheats while it signs', () => {
  it.each([
    { hop: 1, role: 'initiator' },
    { hop: 2, role: 'joiner' },
    { hop: 3, role: 'initiator' },
  ])(
    'in message $hop gets no other signature, harms no other run, and only it is blamed',
    async ({ hop, role }) => {
      const cheating = async (plan: Plan, honest: Party, beside: boolean) => {
        hostile.cheat = cheatIn(hop, { plan, memory });
        const request = await runs.freshRequest();
        const other = beside ? runs.sign([2, 3], await runs.freshRequest()) : undefined;
        const pair = role === 'initiator' ? ([HOSTILE, honest] as const) : ([honest, HOSTILE] as const);
        const outcome = await runs.sign(pair, request);
        if (other) expect(describeOutcome(await other)).toBe('signed');
        await judge({ honest, plan, request, outcome, hop });
        if (bansOf(honest).length > 0) await expectBanned(honest);
        forgive(honest);
      };
      const sometimes = fc.nat({ max: 9 }).map((n) => n === 0);
      await fc.assert(fc.asyncProperty(anyPlan, fc.constantFrom<Party>(2, 3), sometimes, cheating), {
        numRuns: CHEATS,
        endOnFailure: true,
      });
    },
    600_000,
  );

  it('is banned in every run that it had open, not only in the one in which it was found', async () => {
    hostile.cheat = undefined;
    const held: { release: () => void; run: Promise<Outcome> }[] = [];
    for (let i = 0; i < 5; i++) {
      const gate = Promise.withResolvers<void>();
      // The initiator's second request is held back, so that the run stands open at both.
      const waiting: SignerTransport = {
        ...hostile.transport,
        async call(peer, p) {
          if (p.path === '/v1/sign/step' && peer.party === 2) await gate.promise;
          return hostile.transport.call(peer, p);
        },
      };
      held.push({ release: gate.resolve, run: runs.sign([HOSTILE, 2], await runs.freshRequest(), waiting) });
    }
    await expect.poll(() => signers.signer(2).context.sessions.count('sign')).toBe(5);
    hostile.cheat = cheatIn(1, { plan: { trick: 'zeros in a part', x: 0.5, y: 0.9 }, memory });
    const caught = await runs.sign([HOSTILE, 2], await runs.freshRequest());
    expect(describeOutcome(caught)).toBe('protocol_fault, blames 1');
    hostile.cheat = undefined;
    for (const { release } of held) release();
    for (const { run } of held) expect(await run).toMatchObject({ error: { code: 'banned_pair', party: 2 } });
    expect(signers.signer(2).context.sessions.count('sign')).toBe(0);
    expect(describeOutcome(await runs.sign([2, 3], await runs.freshRequest()))).toBe('signed');
    expect(describeOutcome(await runs.sign([3, HOSTILE], await runs.freshRequest()))).toBe('signed');
    forgive(2);
  });

  it('and says in one run what belongs to another is found in both, and blamed for it', async () => {
    // Two runs at once whose messages change places, each sealed for the run that it is sent in.
    for (const { hop, pair } of [
      { hop: 1, pair: [HOSTILE, 2] as const },
      { hop: 2, pair: [2, HOSTILE] as const },
      { hop: 3, pair: [HOSTILE, 2] as const },
    ]) {
      const meeting = [Promise.withResolvers<Uint8Array>(), Promise.withResolvers<Uint8Array>()];
      let arrived = 0;
      hostile.cheat = async (sent) => {
        if (sent.context.round !== hop) return sent.seal(sent);
        const mine = arrived++;
        meeting[mine]!.resolve(sent.body);
        return sent.seal({ context: sent.context, body: await meeting[1 - mine]!.promise });
      };
      const both = [await runs.freshRequest(), await runs.freshRequest()].map((request) => runs.sign(pair, request));
      for (const run of both) expect(describeOutcome(await run)).toBe('bad_message, blames 1');
    }
    expect(bansOf(2)).toEqual([]);
  });

  it('and works on another payment than the other of the pair gets no signature of either', async () => {
    for (const pair of [[HOSTILE, 2] as const, [2, HOSTILE] as const]) {
      const [asked, wanted] = [await runs.freshRequest(), await runs.freshRequest()];
      const double: SignerTransport = {
        ...hostile.transport,
        call(peer, p) {
          const swap = 'keyId' in p.body && peer.party === HOSTILE;
          return hostile.transport.call(peer, swap ? { ...p, body: { ...p.body, ...wanted } } : p);
        },
      };
      const about = (request: SignRequest, subject: string) =>
        subject
          .replace(/digest 0x[0-9a-f]+/, `digest ${digestOf(request.payload, request.address)}`)
          .replace(/txn_\d+/, txnOf(request));
      hostile.hear = ({ context, body }) => ({
        context: { ...context, subject: about(wanted, context.subject) },
        body,
      });
      hostile.cheat = ({ context, body, seal }) => {
        return seal({ context: { ...context, subject: about(asked, context.subject) }, body });
      };
      const outcome = await runs.sign(pair, asked, double);
      expect(outcome).toMatchObject({ error: { code: 'protocol_fault' } });
      expect(bansOf(2)).toEqual([]);
    }
    hostile.hear = undefined;
  });

  it('and answers another signature is found by the coordinator, and named', async () => {
    hostile.cheat = undefined;
    const answers: ((good: { signature: string; digest: string }) => object)[] = [
      ({ signature, digest }) => ({ signature: `${signature.slice(0, -2)}05`, digest }),
      ({ digest }) => ({ signature: `0x${'11'.repeat(64)}00`, digest }),
      ({ signature, digest }) => ({ signature: signature.slice(0, -2), digest }),
      ({ signature }) => ({ signature, digest: `0x${'11'.repeat(32)}` }),
      ({ signature, digest }) => ({ signature: `${signature.slice(0, 66)}${'f'.repeat(64)}00`, digest }),
      () => ({}),
      () => ({ signature: 7, digest: null }),
    ];
    for (const bend of answers) {
      const bending: SignerTransport = {
        ...hostile.transport,
        async call<T>(peer: Parameters<SignerTransport['call']>[0], p: Parameters<SignerTransport['call']>[1]) {
          const answer = await hostile.transport.call<T>(peer, p);
          const last = p.path === '/v1/sign/step' && peer.party === HOSTILE;
          return last ? (bend(answer as { signature: string; digest: string }) as T) : answer;
        },
      };
      const outcome = await runs.sign([2, HOSTILE], await runs.freshRequest(), bending);
      expect(outcome).toMatchObject({ error: { name: 'SignerFault', party: HOSTILE } });
    }
  });
});

describe('after all of that', () => {
  it('the logs of the honest hold nothing but what they were asked to sign', async () => {
    hostile.cheat = undefined;
    for (const pair of [[1, 2] as const, [2, 3] as const, [3, 1] as const]) {
      expect(describeOutcome(await runs.sign(pair, await runs.freshRequest()))).toBe('signed');
    }
    const dirs = ([2, 3] as const).map((party) => signers.dataDirOf(party));
    await signers.close();
    for (const dir of dirs) {
      const db = new DatabaseSync(join(dir, 'signer.sqlite'), { readOnly: true });
      const rows = db
        .prepare('select payload, digest, address, transaction_id as "transactionId" from signing_log')
        .all();
      db.close();
      expect(rows.length).toBeGreaterThan(10);
      for (const { payload, digest, address, transactionId } of rows) {
        const parsed = JSON.parse(payload as string);
        expect(`0x${Buffer.from(digest as Uint8Array).toString('hex')}`).toBe(digestOf(parsed, address as string));
        expect(transactionId).toBe(`txn_${parsed.transaction.nonce}`);
      }
    }
  });
});
