import { Client, Connection } from '@temporalio/client';
import {
  type Address,
  createTestClient as createNodeClient,
  erc20Abi,
  http,
  parseEther,
  parseUnits,
  publicActions,
} from 'viem';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { anvil } from 'viem/chains';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { ensureAccountKey } from '../../dev/account-key.ts';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import type { Party } from '../../signer/client.ts';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type ReleasedCode, tryFindReleasedCode, unpackReleasedCode } from '../upgrade/released-code.ts';
import { openTwoVersions, type TwoVersions, type Version } from '../upgrade/two-versions.ts';

const chain = 'eip155:31337';
/** Only so that what hangs ends: a busy machine needs minutes for what takes seconds. */
const soonMs = 300_000;
/** `EventType` of Temporal's API: a workflow could not go on with what its history says, among others. */
const workflowTaskFailed = 9;
/** Something came in while a worker answered, and it has to look again: that happens to the soundest of them. */
const unhandledCommand = 1;
const approver = 'owner@example.com';
const parties: readonly Party[] = [1, 2, 3];

const released = tryFindReleasedCode();
const title =
  'reason' in released ? `skipped: ${released.reason}` : `${released.migration}, ${released.commit.slice(0, 7)}`;

interface Payer {
  readonly id: string;
  readonly address: Address;
}
interface Payment {
  readonly id: string;
  readonly payer: Payer;
  readonly to: Address;
  /** USDC. */
  readonly amount: string;
}

let code: ReturnType<typeof unpackReleasedCode>;
let stack: TwoVersions;
let clients: Record<Version, TestClient>;
let pool: Pool;
let connection: Connection;
/** Pays whatever is to be paid at once. */
let payer: Payer;
/** Every one of these asks a person first. */
let asker: Payer;
/** Its payments wait for signers. */
let patient: Payer;
/** It is frozen by this version, and paid by the other one. */
let frozen: Payer;
const payers: Payer[] = [];
const payments: Payment[] = [];
/** Taken while frozen. */
let held: Payment;

const node = () =>
  createNodeClient({ mode: 'anvil', chain: anvil, transport: http(stack.rpcUrl) }).extend(publicActions);
const usdcOf = (owner: Address) =>
  node().readContract({ address: stack.usdcAddress, abi: erc20Abi, functionName: 'balanceOf', args: [owner] });

async function makePayer(name: string): Promise<Payer> {
  const { status, body } = await clients.old.post('/agents', { agent_name: name, chain });
  expect([status, body]).toEqual([200, expect.anything()]);
  const made = { id: body.id, address: body.wallet.address };
  expect(await node().getBalance(made)).toBe(parseEther('10'));
  expect(await usdcOf(made.address)).toBe(parseUnits('10000', 6));
  payers.push(made);
  return made;
}

/** Has a version take a payment to somebody new, of an amount that no other one has. */
async function post(version: Version, by: Payer): Promise<Payment> {
  const to = privateKeyToAddress(generatePrivateKey());
  const amount = `1.${String(payments.length + 1).padStart(6, '0')}`;
  const asked = { agent_id: by.id, direction: 'outbound', type: 'transfer', chain };
  const { status, body } = await clients[version].post('/transactions', {
    ...{ ...asked, to_address: to, amount, token: 'USDC' },
  });
  expect([status, body]).toEqual([200, expect.anything()]);
  const made = { id: body.id, payer: by, to, amount };
  payments.push(made);
  return made;
}

/** Waits, asking a version, until the payment is so. */
async function until(version: Version, { id }: Payment, isSo: (body: Record<string, unknown>) => boolean) {
  const { body } = await eventually(
    () => clients[version].get(`/transactions/${id}`),
    ({ status, body }) => status === 200 && (isSo(body) || body.status === 'failed'),
    { timeoutMs: soonMs },
  );
  expect(body.failure_message).toBeNull();
  return body;
}
const confirmed = (version: Version, one: Payment) => until(version, one, ({ status }) => status === 'confirmed');
const pay = async (version: Version, by = payer) => confirmed(version, await post(version, by));

/** Pays one after the other, by a version, for as long as something takes. */
async function payDuring<T>(version: Version, work: () => Promise<T>): Promise<T> {
  let isDone = false;
  const done = work().finally(() => {
    isDone = true;
  });
  const lane = (async () => {
    do await pay(version);
    while (!isDone);
  })();
  const [result] = await Promise.all([done, lane]);
  return result;
}

interface Begun {
  readonly asked: Payment;
  readonly sped: Payment;
  readonly unmined: Payment;
  readonly unsigned: Payment;
}

/** Leaves payments behind that wait: for a person, for a block, for signers. Two signers are away afterwards. */
async function begin(version: Version): Promise<Begun> {
  const asked = await post(version, asker);
  await until(version, asked, ({ status_detail }) => status_detail === 'awaiting_approval');
  await node().setAutomine(false);
  const unmined = await post(version, payer);
  const sped = await post(version, payer);
  for (const one of [unmined, sped]) await until(version, one, ({ hash }) => hash !== null);
  await Promise.all([stack.stop('new', 1), stack.stop('new', 2)]);
  const unsigned = await post(version, patient);
  await until(version, unsigned, ({ status_detail }) => status_detail === 'signing');
  return { asked, sped, unmined, unsigned };
}

/** Brings to their end what another version has begun. */
async function end(version: Version, { asked, sped, unmined, unsigned }: Begun): Promise<void> {
  await Promise.all([stack.start('new', 1), stack.start('new', 2)]);
  await until(version, unsigned, ({ hash }) => hash !== null);
  expect((await clients[version].post(`/transactions/${sped.id}/speed-up`, {})).status).toBe(200);
  await until(version, sped, ({ attempts }) => (attempts as unknown[]).length === 2);
  await node().setAutomine(true);
  await node().mine({ blocks: 1 });
  const { body } = await clients[version].get(`/transactions/${asked.id}`);
  const how = ['approval', 'approve', body.approval.id, '--as', approver, '--reason', 'As agreed.'];
  await stack.run(version, 'api/admin.ts', how);
  for (const one of [asked, sped, unmined, unsigned]) await confirmed(version, one);
}

/** By the command of this version; resolves when all signers know it. */
async function setFrozen(verb: 'freeze' | 'unfreeze'): Promise<void> {
  const wait = String(soonMs / 1_000);
  await stack.run('new', 'api/admin.ts', [verb, 'agent', '--id', frozen.id, '--wait', wait]);
  await eventually(
    () => pool.query('select from freeze_orders where told >= version'),
    ({ rowCount }) => rowCount === 1,
    { timeoutMs: soonMs },
  );
}

/** The old worker asks the signers again and again, and gets nothing. */
async function expectRefusedBySigners({ id }: Payment): Promise<void> {
  const { workflow } = new Client({ connection });
  const attempts = async () => {
    const { raw } = await workflow.getHandle(id).describe();
    return raw.pendingActivities?.find(({ activityType }) => activityType?.name === 'sign')?.attempt ?? 0;
  };
  await eventually(attempts, (count) => count >= 3, { timeoutMs: soonMs });
  expect((await clients.old.get(`/transactions/${id}`)).body).toMatchObject({ status: 'pending', hash: null });
}

/** Nobody was paid less, more or twice, and every sum agrees. */
async function expectExact(): Promise<void> {
  for (const { to, amount } of payments) expect(await usdcOf(to)).toBe(parseUnits(amount, 6));
  for (const { id, address } of payers) {
    const own = payments.filter(({ payer: by }) => by.id === id);
    const answers = await Promise.all(own.map((one) => clients.old.get(`/transactions/${one.id}`)));
    const sum = (amounts: readonly bigint[]) => amounts.reduce((total, one) => total + one, 0n);
    const fees = sum(answers.map(({ body }) => parseEther(body.fee)));
    expect(await node().getTransactionCount({ address })).toBe(own.length);
    expect(await node().getBalance({ address })).toBe(parseEther('10') - fees);
    const sent = sum(own.map(({ amount }) => parseUnits(amount, 6)));
    expect(await usdcOf(address)).toBe(parseUnits('10000', 6) - sent);
  }
  expect(await findMismatches(pool)).toEqual([]);
}

/** No worker found in a history what it could not go on with. */
async function expectSoundHistories(): Promise<void> {
  const { workflow } = new Client({ connection });
  for (const { id } of payments) {
    const { events } = await workflow.getHandle(id).fetchHistory();
    const failed = events?.filter(({ eventType }) => Number(eventType) === workflowTaskFailed) ?? [];
    const causes = failed.map(({ workflowTaskFailedEventAttributes: attributes }) => Number(attributes?.cause));
    expect(causes.filter((cause) => cause !== unhandledCommand)).toEqual([]);
  }
}

describe.skipIf('reason' in released)(`the version that was released last (${title})`, () => {
  beforeAll(async () => {
    code = unpackReleasedCode(released as ReleasedCode);
    stack = await openTwoVersions({ oldDir: code.dir, temporalBinary: inject('stack').temporalBinary });
    await stack.run('old', 'shared/db/migrate.ts');
    await Promise.all([...parties.map((party) => stack.start('old', party)), stack.start('old', 'worker')]);
    await stack.start('old', 'api');
    const account = ['account', 'create', '--name', 'Upgraded', '--owner', approver];
    const { account_id, api_key } = JSON.parse(await stack.run('old', 'api/admin.ts', account)) as {
      account_id: string;
      api_key: string;
    };
    clients = {
      old: createTestClient({ baseUrl: stack.apiUrl('old'), apiKey: api_key }),
      new: createTestClient({ baseUrl: stack.apiUrl('new'), apiKey: api_key }),
    };
    pool = createPool({ url: stack.databaseUrl, max: 2, application: 'test' });
    connection = await Connection.connect({ address: stack.temporalAddress });
    await ensureAccountKey({
      ...{ temporalAddress: stack.temporalAddress, namespace: 'default', accountId: account_id },
    });
    payer = await makePayer('payer');
    asker = await makePayer('asker');
    patient = await makePayer('patient');
    frozen = await makePayer('frozen');
    const rules = { threshold: '0.5', approvers: [approver] };
    const policy = await clients.old.post('/policies', { agent_id: asker.id, type: 'human_approval', rules });
    expect([policy.status, policy.body]).toEqual([200, expect.anything()]);
  });
  afterAll(async () => {
    await pool?.end();
    await connection?.close();
    await stack?.close();
    code?.remove();
  });

  it('pays on while three processes of both versions migrate its database, and afterwards', async () => {
    const asked = await post('old', asker);
    await until('old', asked, ({ status_detail }) => status_detail === 'awaiting_approval');
    const said = await payDuring('old', () =>
      Promise.all((['new', 'old', 'new'] as const).map((version) => stack.run(version, 'shared/db/migrate.ts'))),
    );
    const done = said.filter((line) => line !== 'The schema is up to date.\n');
    expect(done).toEqual([expect.stringMatching(/^Migrated: /)]);
    await pay('old');
    const { body } = await clients.old.get(`/transactions/${asked.id}`);
    const how = ['approval', 'approve', body.approval.id, '--as', approver, '--reason', 'As agreed.'];
    await stack.run('old', 'api/admin.ts', how);
    await confirmed('old', asked);
  });

  it('signs with the signers of both versions, whichever two of them are there', async () => {
    for (const party of parties) {
      await stack.stop('old', party);
      await pay('old');
      await stack.start('new', party);
      await pay('old');
    }
  });

  it('works beside this one: payments of either api are carried out by workers of both, or of either alone', async () => {
    await payDuring('old', async () => {
      await stack.start('new', 'worker');
      await stack.start('new', 'api');
      for (let round = 0; round < 3; round += 1) await pay('new');
    });
    await payDuring('new', () => stack.stop('new', 'worker'));
    for (const version of ['old', 'new'] as const) await pay(version);
  });

  it('is replaced: what it has begun is ended by this one', async () => {
    const begun = await begin('old');
    await stack.start('new', 'worker');
    await Promise.all([stack.stop('old', 'worker'), stack.stop('old', 'api')]);
    await end('new', begun);
    await pay('new');
  });

  it('takes its place again when need be, but for the signers: what this one has begun is ended by it', async () => {
    await setFrozen('freeze');
    const begun = await begin('new');
    await stack.start('old', 'worker');
    await Promise.all([stack.stop('new', 'worker'), stack.stop('new', 'api')]);
    await stack.start('old', 'api');
    await end('old', begun);
    await pay('old');
    held = await post('old', frozen);
    await expectRefusedBySigners(held);
    await stack.stop('new', 3);
    await expect(stack.start('old', 3)).rejects.toThrow(/it is of version \d+, this program knows versions up to \d+/);
    await stack.start('new', 3);
  });

  it('is replaced once more, and what signers held back because it was frozen is paid once that is lifted', async () => {
    await stack.start('new', 'worker');
    await stack.stop('old', 'worker');
    await setFrozen('unfreeze');
    await confirmed('old', held);
    await pay('old');
  });

  it('leaves nothing unpaid, nothing paid twice and no history that cannot be gone on with', async () => {
    await expectExact();
    await expectSoundHistories();
  });
});
