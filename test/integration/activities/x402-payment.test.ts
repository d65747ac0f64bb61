import { generateKeyPairSync } from 'node:crypto';
import { decodePaymentSignatureHeader } from '@x402/core/http';
import fc from 'fast-check';
import { decodeJwt } from 'jose';
import { hashTypedData } from 'viem';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAwaitApproval } from '../../../activities/await-approval.ts';
import { createEndSession } from '../../../activities/end-session.ts';
import { createIssueAuthorization } from '../../../activities/issue-authorization.ts';
import type { Allotment } from '../../../activities/issue-receipt.ts';
import { recordAuthorization } from '../../../activities/record-authorization.ts';
import { createFailX402, createSettleX402 } from '../../../activities/settle-x402.ts';
import { createStampAuthorization } from '../../../activities/stamp-authorization.ts';
import { decideApprovals } from '../../../api/operations/decide-approval.ts';
import { updateAgentStatus } from '../../../shared/db/agents.ts';
import { approvalsOfPayment, takeReminders } from '../../../shared/db/approvals.ts';
import { bySystem } from '../../../shared/db/audit.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { findMismatches } from '../../../shared/db/mismatches.ts';
import { insertPolicy } from '../../../shared/db/policies.ts';
import { createPool, inTransaction, type Pool } from '../../../shared/db/pool.ts';
import { getX402Payment, type StoredOffer, type X402PaymentRow } from '../../../shared/db/x402-payments.ts';
import { getSession, type SessionRow } from '../../../shared/db/x402-sessions.ts';
import type { AuthorizationPayload } from '../../../shared/domain/receipt.ts';
import { newId } from '../../../shared/ids.ts';
import { importReceiptKey, verifyReceipt } from '../../../shared/receipt.ts';
import { releaseSession } from '../../../shared/x402-budget.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { insertTestAgent, type TestAgent } from '../../support/rows.ts';
import { insertTestLedger, insertTestSession, payer } from '../../support/x402-ledger.ts';

const clock = databaseClock;
const { privateKey, publicKey } = generateKeyPairSync('ed25519');

let database: TestDatabase;
let pool: Pool;
let stamp: ReturnType<typeof createStampAuthorization>;
let issue: ReturnType<typeof createIssueAuthorization>;
let settle: ReturnType<typeof createSettleX402>;
let fail: ReturnType<typeof createFailX402>;
let endSession: ReturnType<typeof createEndSession>;
let awaitApproval: ReturnType<typeof createAwaitApproval>;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
  const policyKey = await importReceiptKey(JSON.stringify(privateKey.export({ format: 'jwk' })));
  stamp = createStampAuthorization({ pool, clock, policyKey });
  issue = createIssueAuthorization({ pool, clock });
  settle = createSettleX402({ pool, clock });
  fail = createFailX402({ pool });
  endSession = createEndSession({ pool, clock });
  awaitApproval = createAwaitApproval({ pool, clock });
});
afterAll(async () => {
  expect(await findMismatches(pool)).toEqual([]);
  await pool?.end();
  await database?.drop();
});

const payment = async (id: string) => (await getX402Payment(pool, { id }))!;
const session = async (id: string) => (await getSession(pool, { id }))!;
const eventsOf = async (id: string) =>
  (
    await pool.query<{ type: string }>('select type from events where resource_id = $1 order by created_at, id', [id])
  ).rows.map(({ type }) => type);
const heldBy = async (ownerId: string) =>
  (await pool.query<{ amount_minor: string }>('select amount_minor from holds where owner_id = $1', [ownerId])).rows[0]
    ?.amount_minor ?? '0';

interface Made {
  readonly agent: TestAgent;
  readonly session: SessionRow;
  readonly row: X402PaymentRow;
}
async function make(
  o: Parameters<typeof insertTestLedger>[2] & { policy?: [type: string, rules: object] } = {},
): Promise<Made> {
  const agent = await insertTestAgent(pool);
  if (o.policy) await addPolicy(agent, ...o.policy);
  const opened = await insertTestSession(pool, agent);
  return { agent, session: opened, row: await insertTestLedger(pool, opened, o) };
}
const addPolicy = (agent: TestAgent, type: string, rules: object) =>
  insertPolicy(pool, { id: newId('pol'), ...agent, type, rules } as Parameters<typeof insertPolicy>[1]);
const asking = { threshold: '0', approvers: ['a@example.com'], timeout_seconds: 60, required_approvals: 1 };
const deactivate = ({ agent }: Made) =>
  updateAgentStatus(pool, { id: agent.agentId, accountId: agent.accountId, status: 'inactive' });
const refuse = ({ row }: Made) => fail(row.id, 'signing_failed', 'no');
const remove = ({ session: { id } }: Made) =>
  inTransaction(pool, async (db) => releaseSession(db, { session: (await getSession(db, { id }))!, by: 'deletion' }));

async function stamped(id: string) {
  const given = await stamp(id);
  if (given.outcome !== 'stamped') throw new Error(`not stamped but ${given.outcome}`);
  return given;
}
/** As the signers do. */
function sign({ payload: { authorization } }: Allotment<AuthorizationPayload>) {
  const { domain, ...message } = authorization;
  const uint = 'uint256';
  const types = {
    TransferWithAuthorization: [
      { name: 'from', type: 'address' },
      { name: 'to', type: 'address' },
      { name: 'value', type: uint },
      { name: 'validAfter', type: uint },
      { name: 'validBefore', type: uint },
      { name: 'nonce', type: 'bytes32' },
    ],
  };
  return payer.sign({ hash: hashTypedData({ domain, types, primaryType: 'TransferWithAuthorization', message }) });
}
/** What has been taken is back: in the budget, the limits and the wallet. */
async function expectGivenBack({ session: { id }, row }: Made) {
  const { spent_minor, released_at } = await session(id);
  expect([spent_minor, await heldBy(row.id)]).toEqual(['0', '0']);
  expect(await heldBy(id)).toBe(released_at === null ? '1000000' : '0');
  const { rows } = await pool.query('select state from reservations where payment_id = $1', [row.id]);
  expect(rows).toEqual([{ state: 'released' }]);
}
async function expectKept({ row }: Made) {
  expect(await session(row.session_id)).toMatchObject({ spent_minor: '10100' });
  expect(await heldBy(row.id)).toBe('10100');
}

describe('stamping', () => {
  it('gives one authorisation, however often and by however many it is asked for', async () => {
    const { row } = await make();
    const given = await Promise.all(Array.from({ length: 8 }, () => stamped(row.id)));
    given.push(await stamped(row.id));
    expect(new Set(given.map(({ allotment }) => JSON.stringify(allotment.payload))).size).toBe(1);
    const { allotment, leftMs } = given[0]!;
    const { nonce, validAfter, validBefore, ...rest } = allotment.payload.authorization;
    expect(rest).toEqual({
      domain: { name: 'USD Coin', version: '2', chainId: 31337, verifyingContract: row.asset },
      ...{ from: payer.address, to: row.to_address, value: '10000' },
    });
    expect(validBefore - validAfter).toBe(900);
    expect(leftMs).toBeGreaterThan(260_000);
    expect(await payment(row.id)).toMatchObject({
      ...{ auth_nonce: nonce, status_detail: 'signing', settlement: 'unsettled' },
      valid_before: String(validBefore),
    });
  });

  it('issues a receipt for just that authorisation, which is over when that is', async () => {
    const { row } = await make();
    const { allotment } = await stamped(row.id);
    const { validAfter, validBefore, nonce } = allotment.payload.authorization;
    const receipt = await verifyReceipt(publicKey as never, { receipt: allotment.receipt, now: new Date() });
    expect(receipt).toMatchObject({
      ...{ transaction_id: row.id, decision_id: (await payment(row.id)).decision_id, exp: validBefore },
      intent: {
        ...{ chain: row.chain, asset: row.asset, to: row.to_address, amount_minor: '10000', max_fee_minor: '0' },
        authorization: { valid_after: validAfter, valid_before: validBefore, nonce },
      },
    });
  });

  it('judges a second time: what is denied by now fails, is told as a denial, and all is given back', async () => {
    const made = await make();
    await addPolicy(made.agent, 'spending_limit', { max_transaction_amount: '0.005' });
    expect(await stamp(made.row.id)).toEqual({ outcome: 'failed' });
    expect(await payment(made.row.id)).toMatchObject({
      failure_code: 'policy_violation',
      decision: { outcome: 'deny' },
    });
    expect(await eventsOf(made.row.id)).toEqual(['policy.violated']);
    await expectGivenBack(made);
  });

  it('counts in the limits from then on', async () => {
    const { row } = await make();
    await pool.query(`update reservations set instant = instant - interval '1 hour' where payment_id = $1`, [row.id]);
    await stamped(row.id);
    const age = `select instant > now() - interval '1 minute' as "isFresh" from reservations where payment_id = $1`;
    expect((await pool.query(age, [row.id])).rows).toEqual([{ isFresh: true }]);
  });

  it('judges once: what the policies say afterwards changes nothing', async () => {
    const { row, agent } = await make();
    const { allotment } = await stamped(row.id);
    await addPolicy(agent, 'spending_limit', { max_transaction_amount: '0.005' });
    await addPolicy(agent, 'human_approval', asking);
    expect((await stamped(row.id)).allotment.payload).toEqual(allotment.payload);
  });

  it.each([
    ['an inactive agent', deactivate, 'agent_inactive'],
    ['a deleted session', remove, 'session_expired'],
  ])('stamps nothing for %s, and gives all back', async (_, change, code) => {
    const made = await make();
    await change(made);
    expect(await stamp(made.row.id)).toEqual({ outcome: 'failed' });
    expect(await payment(made.row.id)).toMatchObject({ status: 'failed', failure_code: code, settlement: null });
    expect(await eventsOf(made.row.id)).toEqual(['x402.payment.failed']);
    await expectGivenBack(made);
    expect(await stamp(made.row.id)).toEqual({ outcome: 'failed' });
    expect(await settle(made.row.id)).toEqual({ state: 'ended', status: 'failed' });
  });

  it.each([
    { what: 'its agent is inactive', change: deactivate, code: 'agent_inactive', isSigned: false },
    { what: 'its agent is inactive', change: deactivate, code: 'agent_inactive', isSigned: true },
    { what: 'its session is deleted', change: remove, code: 'session_expired', isSigned: false },
    { what: 'its session is deleted', change: remove, code: 'session_expired', isSigned: true },
    { what: 'the signers refuse it', change: refuse, code: 'signing_failed', isSigned: true },
  ])('keeps what it took when $what after the stamp, until that is over (signed: $isSigned)', async (each) => {
    const { change, code, isSigned } = each;
    const made = await make();
    const { id } = made.row;
    const { allotment } = await stamped(id);
    await change(made);
    // Looked at before the signature and after it, whichever comes next.
    const looks = [() => stamp(id), async () => issue(id, await sign(allotment))];
    for (const look of isSigned ? looks.toReversed() : looks) expect(await look()).toEqual({ outcome: 'ending' });
    expect(await payment(id)).toMatchObject({ status: 'pending', ending_code: code, payment_signature: null });
    expect(await eventsOf(id)).toEqual([]);
    await expectKept(made);
    expect(await settle(id)).toMatchObject({ state: 'open' });
    const { nonce } = allotment.payload.authorization;
    await inTransaction(pool, (db) => recordAuthorization(db, { ledgerId: id, fact: { nonce, isOver: true } }));
    expect(await payment(id)).toMatchObject({ status: 'failed', failure_code: code, settlement: 'expired' });
    expect(await eventsOf(id)).toEqual(['x402.payment.failed']);
    await expectGivenBack(made);
  });

  it('stamps nothing anew before the last stamp is over, and signs none that is too old', async () => {
    const made = await make({ windowSeconds: 30 });
    const { id } = made.row;
    const first = await stamped(id);
    expect(first.leftMs).toBeGreaterThan(13_000);
    expect(first.leftMs).toBeLessThanOrEqual(15_000);
    await pool.query('update x402_payments set valid_before = valid_before - 16 where id = $1', [id]);
    expect(await stamp(id)).toEqual({ outcome: 'outdated' });
    const { authorization } = first.allotment.payload;
    const aged = { ...authorization, validBefore: authorization.validBefore - 16 };
    const late = { ...first.allotment, payload: { ...first.allotment.payload, authorization: aged } };
    expect(await issue(id, await sign(late))).toEqual({ outcome: 'again' });
    await expectKept(made);
    const { nonce } = authorization;
    await inTransaction(pool, (db) => recordAuthorization(db, { ledgerId: id, fact: { nonce, isOver: true } }));
    expect(await settle(id)).toEqual({ state: 'again' });
    await expectKept(made);
    const second = await stamped(id);
    expect(second.allotment.payload.authorization.nonce).not.toBe(nonce);
    expect(replacedBy(first.allotment)).toBeUndefined();
    expect(replacedBy(second.allotment)).toEqual([slotOf(first.allotment)]);
    // Whoever slept meanwhile comes back with what was signed for the first one.
    expect(await issue(id, await sign(first.allotment))).toEqual({ outcome: 'again' });
    expect(await issue(id, await sign(second.allotment))).toEqual({ outcome: 'issued' });
  });
});

/** What the receipt tells the signers to forget. */
const replacedBy = ({ receipt }: Allotment<AuthorizationPayload>) => decodeJwt(receipt).replaces;
const slotOf = ({ payload: { authorization } }: Allotment<AuthorizationPayload>) =>
  `eip155:31337/${authorization.domain.verifyingContract}/${authorization.from}/auth/${authorization.nonce}`.toLowerCase();

describe('stamping again and again', () => {
  it('names the newest 16 of the authorisations before', async () => {
    const { row } = await make();
    const slots: string[] = [];
    for (let i = 0; i < 18; i++) {
      const { allotment } = await stamped(row.id);
      expect(replacedBy(allotment)).toEqual(i === 0 ? undefined : slots.slice(-16));
      slots.push(slotOf(allotment));
      const { nonce } = allotment.payload.authorization;
      await inTransaction(pool, (db) => recordAuthorization(db, { ledgerId: row.id, fact: { nonce, isOver: true } }));
    }
  });
});

describe('handing out', () => {
  it('is done once, and told once, however often it is asked for', async () => {
    const made = await make();
    const { id } = made.row;
    const { allotment } = await stamped(id);
    const signatures = await Promise.all(Array.from({ length: 4 }, () => sign(allotment)));
    const outcomes = await Promise.all(signatures.map((each) => issue(id, each)));
    expect(outcomes).toEqual(outcomes.map(() => ({ outcome: 'issued' })));
    expect(await eventsOf(id)).toEqual(['x402.payment.completed']);
    const told = await pool.query(
      `select data ->> 'status' as status, data ->> 'payment_signature' as header from events where resource_id = $1`,
      [id],
    );
    // The header is for whoever asked for it alone.
    expect(told.rows).toEqual([{ status: 'completed', header: null }]);
    expect(await payment(id)).toMatchObject({ status: 'completed', settlement: 'unsettled', ending_code: null });
    await deactivate(made);
    expect(await stamp(id)).toEqual({ outcome: 'issued' });
    expect(await issue(id, signatures[0]!)).toEqual({ outcome: 'issued' });
    expect(await fail(id, 'signing_failed', 'no')).toEqual({ outcome: 'issued' });
    await expectKept(made);
  });

  it('takes no signature of anything else', async () => {
    const { row } = await make();
    const other = await make();
    await stamped(row.id);
    const { allotment } = await stamped(other.row.id);
    expect(await issue(row.id, await sign(allotment))).toEqual({ outcome: 'again' });
    expect(await payment(row.id)).toMatchObject({ status: 'pending', payment_signature: null });
  });

  it('echoes what the target wrote, member by member and in its order', async () => {
    const { session: opened } = await make();
    const json = fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<unknown>;
    const accepted = fc.dictionary(fc.string(), json, { noNullPrototype: true });
    await fc.assert(
      fc.asyncProperty(
        accepted,
        json,
        json,
        fc.constantFrom(1 as const, 2 as const),
        async (more, resource, extensions, x402Version) => {
          const scheme = { scheme: 'exact', network: x402Version === 1 ? 'local' : 'eip155:31337' };
          const offer: StoredOffer = JSON.parse(
            JSON.stringify({ resource, accepted: { ...more, ...scheme }, extensions }),
          );
          const { id } = await insertTestLedger(pool, opened, { x402Version, offer });
          const { allotment } = await stamped(id);
          const signature = await sign(allotment);
          expect(await issue(id, signature)).toEqual({ outcome: 'issued' });
          const { validAfter, validBefore, domain: _, ...rest } = allotment.payload.authorization;
          const authorization = { ...rest, validAfter: `${validAfter}`, validBefore: `${validBefore}` };
          const header = decodePaymentSignatureHeader((await payment(id)).payment_signature!);
          expect(header.payload).toEqual({ signature, authorization });
          if (x402Version === 1) expect(header).toEqual({ x402Version: 1, ...scheme, payload: header.payload });
          else {
            expect(JSON.stringify(header.accepted)).toBe(JSON.stringify(offer.accepted));
            expect(JSON.stringify([header.resource ?? null, header.extensions ?? null])).toBe(
              JSON.stringify([offer.resource, offer.extensions]),
            );
          }
        },
      ),
      { numRuns: 40 },
    );
  });
});

describe('a payment that wants a person', () => {
  const approval = async (id: string) => (await approvalsOfPayment(pool, { paymentId: id })).at(-1)!;
  async function decide({ agent, row }: Made, decision: 'approved' | 'rejected') {
    const open = await approval(row.id);
    const answer = { approvalId: open.id, agentId: agent.agentId, approver: 'a@example.com', decision, note: null };
    const result = await decideApprovals(
      { pool, tellAnswer: async () => {} },
      { answers: [answer], door: { via: 'bearer', acting: bySystem } },
    );
    if ('refusal' in result) throw new Error(result.refusal);
  }
  const waiting = () => make({ policy: ['human_approval', asking] });

  it('is stamped once that one has agreed, and not before', async () => {
    const made = await waiting();
    const { id } = made.row;
    expect(await stamp(id)).toEqual({ outcome: 'awaiting' });
    const open = await approval(id);
    expect(await awaitApproval(id)).toEqual({
      ...{ outcome: 'waiting', leftMs: expect.any(Number), deadline: open.expires_at.toISOString() },
      approvalIds: [open.id],
    });
    expect(await payment(id)).toMatchObject({ status_detail: 'awaiting_approval', auth_nonce: null });
    await decide(made, 'approved');
    expect(await awaitApproval(id)).toEqual({ outcome: 'go' });
    await stamped(id);
    expect(await awaitApproval(id)).toEqual({ outcome: 'ended' });
  });

  it('asks for a policy that was added since, and withdraws what is not wanted any more', async () => {
    const made = await make();
    const { id } = made.row;
    await addPolicy(made.agent, 'human_approval', asking);
    expect(await stamp(id)).toEqual({ outcome: 'awaiting' });
    expect(await approval(id)).toMatchObject({ status: 'pending' });
    await pool.query('delete from policies where agent_id = $1', [made.agent.agentId]);
    expect(await awaitApproval(id)).toMatchObject({ outcome: 'go' });
    await stamped(id);
    expect(await approval(id)).toMatchObject({ status: 'cancelled' });
  });

  it('fails when that one says no, and gives all back', async () => {
    const made = await waiting();
    await decide(made, 'rejected');
    expect(await awaitApproval(made.row.id)).toEqual({ outcome: 'rejected' });
    expect(await payment(made.row.id)).toMatchObject({ status: 'failed', failure_code: 'approval_rejected' });
    expect(await eventsOf(made.row.id)).toEqual(['x402.payment.failed']);
    await expectGivenBack(made);
  });

  it('fails when nobody answers in time, and gives all back', async () => {
    const made = await waiting();
    await pool.query('update approvals set expires_at = now() where payment_id = $1', [made.row.id]);
    expect(await awaitApproval(made.row.id)).toEqual({ outcome: 'expired' });
    expect(await payment(made.row.id)).toMatchObject({ status: 'failed', failure_code: 'approval_timeout' });
    await expectGivenBack(made);
  });

  it('is reminded when its session ends, and fails then', async () => {
    const made = await waiting();
    await remove(made);
    expect(await takeReminders(pool, { limit: 100 })).toContain(made.row.id);
    expect(await awaitApproval(made.row.id)).toEqual({ outcome: 'go' });
    expect(await stamp(made.row.id)).toEqual({ outcome: 'failed' });
    expect(await approval(made.row.id)).toMatchObject({ status: 'cancelled' });
    await expectGivenBack(made);
  });
});

describe('the end of a session', () => {
  it('comes when its time is over, once, and frees what is left of its budget', async () => {
    const made = await make();
    const { id } = made.session;
    const open = await endSession(id);
    expect(open.state === 'open' && open.leftMs).toBeGreaterThan(3_590_000);
    await pool.query('update x402_sessions set expires_at = now() where id = $1', [id]);
    expect(await Promise.all([endSession(id), endSession(id), endSession(id)])).toEqual(
      Array(3).fill({ state: 'ended' }),
    );
    expect(await eventsOf(id)).toEqual(['x402.session.expired']);
    expect([await heldBy(id), await heldBy(made.row.id)]).toEqual(['0', '10100']);
    expect(await session(id)).toMatchObject({ status: 'expired', spent_minor: '10100' });
  });

  it('is no second one after a deletion', async () => {
    const made = await make();
    await remove(made);
    await pool.query('update x402_sessions set expires_at = now() where id = $1', [made.session.id]);
    expect(await endSession(made.session.id)).toEqual({ state: 'ended' });
    expect(await eventsOf(made.session.id)).toEqual([]);
    expect((await session(made.session.id)).status).toBe('deleted');
  });
});
