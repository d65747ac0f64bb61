import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createSendApprovalMail } from '../../../activities/send-approval-mail.ts';
import { freePort } from '../../../dev/ports.ts';
import { hashApprovalToken } from '../../../shared/approval-token.ts';
import { findApprovalLink } from '../../../shared/db/approval-links.ts';
import { insertApprovalMails } from '../../../shared/db/approval-mails.ts';
import { getApproval, insertApproval, lockApproval, moveApproval } from '../../../shared/db/approvals.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import type { ApprovalDecision } from '../../../shared/domain/approval.ts';
import { newId } from '../../../shared/ids.ts';
import { createMailTransport, type MailTransport } from '../../../worker/mail-transport.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { insertTestAgent, insertTestPayment } from '../../support/rows.ts';
import { startSmtpServer, type TestSmtpServer } from '../../support/smtp.ts';

const publicUrl = 'https://purser.example.com';
const from = { name: 'Purser', address: 'purser@example.com' };
const [ops, treasurer] = ['ops@example.com', 'treasurer@example.com'];
/** Long enough for a busy machine; servers that hang are given less. */
const patient = { connectMs: 10_000, greetingMs: 10_000, socketMs: 10_000 };
const impatient = { connectMs: 5_000, greetingMs: 300, socketMs: 300 };
const local = (port: number) => ({ host: '127.0.0.1', port, secure: false, auth: undefined });

let database: TestDatabase;
let pool: Pool;
let smtp: TestSmtpServer;
let transports: MailTransport[] = [];
let logged: string[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});
beforeEach(async () => {
  smtp = await startSmtpServer();
  logged = [];
});
afterEach(async () => {
  for (const transport of transports) transport.close();
  transports = [];
  await smtp.stop();
});

/** The activity as a worker runs it, towards a server. */
function sender({
  server = local(smtp.port),
  deadlineMs = 20_000,
  mustEncrypt = false,
  timeouts = patient,
}: {
  server?: Parameters<typeof createMailTransport>[0]['server'];
  deadlineMs?: number;
  mustEncrypt?: boolean;
  timeouts?: typeof patient;
} = {}) {
  const transport = createMailTransport({ server, mustEncrypt, timeouts });
  transports.push(transport);
  const logger = pino({ level: 'trace' }, { write: (line: string) => void logged.push(line) });
  const chainName = (id: string) => (id === 'eip155:31337' ? 'Local' : id);
  const send = createSendApprovalMail({
    ...{ pool, clock: databaseClock, logger, transport, from, publicUrl, chainName, deadlineMs },
  });
  const environment = new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') });
  return {
    send: (approvalId: string, approver = ops) => environment.run(send, { approvalId, approver }),
    cancel: () => environment.cancel(),
  };
}

/** A payment of 1,250.5 USDC that waits for two people. */
async function ask({ required_approvals = 1, approvers = [ops, treasurer] } = {}): Promise<string> {
  const agent = await insertTestAgent(pool);
  const transactionId = await insertTestPayment(pool, agent, { amountMinor: 1_250_500_000n });
  const approval = await insertApproval(pool, {
    ...agent,
    paymentId: transactionId,
    demand: { policy_id: newId('pol'), threshold: '1000', required_approvals, approvers, timeout_seconds: 3_599 },
    now: await databaseClock(pool),
  });
  await insertApprovalMails(pool, { approvalId: approval!.id, approvers });
  return approval!.id;
}

async function decide(id: string, status: 'pending' | 'rejected' | 'approved', approver = ops): Promise<void> {
  const [seen, now] = [(await lockApproval(pool, { id }))!, await databaseClock(pool)];
  const decision = status === 'rejected' ? 'rejected' : 'approved';
  const decisions: ApprovalDecision[] = [{ approver, decision, note: null, decided_at: now.toISOString() }];
  expect(await moveApproval(pool, { seen, status, decisions, now })).toBe(true);
}

const noticeTo = async (id: string, approver = ops) =>
  (await getApproval(pool, { id }))!.notices.find((notice) => notice.approver === approver)!;
const tokenIn = (text: string | undefined) => /\/approve\/([A-Za-z0-9_-]{43})(?![\w-])/.exec(text ?? '')![1]!;
const linkOf = async (token: string) => (await findApprovalLink(pool, { tokenHash: hashApprovalToken(token)! }))!;

/** The failure by which an attempt ends, as Temporal keeps it. */
async function failureOf(attempt: Promise<unknown>): Promise<ApplicationFailure> {
  const error = await attempt.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof ApplicationFailure)) throw new Error(`not an ApplicationFailure: ${String(error)}`);
  expect(error.cause).toBeUndefined();
  return error;
}

/** Every value in the database, as text. */
async function everythingStored(): Promise<string> {
  const { rows } = await pool.query<{ name: string }>(
    `select quote_ident(table_name) as name from information_schema.tables where table_schema = 'public'`,
  );
  const tables = await Promise.all(
    rows.map(({ name }) => pool.query<{ row: string }>(`select t::text as row from ${name} t`)),
  );
  return tables.flatMap((table) => table.rows.map(({ row }) => row)).join('\n');
}

function expectNowhere(token: string, ...places: string[]): void {
  const forms = [token, Buffer.from(token).toString('hex'), Buffer.from(token).toString('base64')];
  forms.push(Buffer.from(token, 'base64url').toString('hex'));
  for (const place of places) for (const form of forms) expect(place).not.toContain(form);
}

describe('mail to an approver', () => {
  it('F30: arrives as text and HTML, with amount, token, chain and recipient, and one link', async () => {
    const id = await ask();
    expect(await sender().send(id)).toBe('sent');
    expect(smtp.mails).toHaveLength(1);
    const [{ recipients, parsed }] = smtp.mails as [(typeof smtp.mails)[number]];
    expect(recipients).toEqual([ops]);
    expect(parsed.from?.value).toEqual([from]);
    expect(parsed.subject).toBe('Your approval is needed: 1 250.5 USDC on Local');
    const html = String(parsed.html);
    for (const form of [parsed.text!, html]) {
      const shown = form.replaceAll(/[\u00a0\s]+/g, ' ');
      expect(shown).toContain('1 250.5 USDC');
      expect(shown).toContain('0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC');
      expect(shown).toContain('Local (eip155:31337)');
      expect(shown).toContain('(in 59 minutes)');
      expect(form.match(/https?:\/\//g)).toHaveLength(1);
      expect(form).not.toContain('1250500000');
    }
    expect(tokenIn(parsed.text)).toBe(tokenIn(html));
    expect(await linkOf(tokenIn(html))).toMatchObject({ approval_id: id, approver: ops, used_at: null });
    expect(await noticeTo(id)).toMatchObject({ status: 'sent', error: null, sent_at: expect.any(String) });
  });

  it('has the header fields of a mail that a program sends, and no others', async () => {
    const id = await ask();
    await sender().send(id);
    const { headers } = smtp.mails[0]!.parsed;
    expect([...headers.keys()].sort()).toEqual([
      'auto-submitted',
      'content-type',
      'date',
      'from',
      'message-id',
      'mime-version',
      'subject',
      'to',
      'x-auto-response-suppress',
    ]);
    expect(headers.get('auto-submitted')).toBe('auto-generated');
    expect(headers.get('message-id')).toMatch(new RegExp(`^<${id}\\.[0-9a-f]{16}@example\\.com>$`));
  });

  it('leaves its token nowhere but in the mail', async () => {
    const id = await ask();
    const result = await sender().send(id);
    const token = tokenIn(smtp.mails[0]!.parsed.text);
    expect(await linkOf(token)).toBeDefined();
    expectNowhere(token, await everythingStored(), String(result), logged.join());
  });

  it('gives each approver a link of their own', async () => {
    const id = await ask();
    const { send } = sender();
    await Promise.all([send(id, ops), send(id, treasurer)]);
    const links = await Promise.all(smtp.mails.map(({ parsed }) => linkOf(tokenIn(parsed.text))));
    expect(links.map(({ approver }) => approver).sort()).toEqual([ops, treasurer]);
    for (const [index, { recipients }] of smtp.mails.entries()) expect(recipients).toEqual([links[index]!.approver]);
    expect(new Set(smtp.mails.map(({ parsed }) => parsed.messageId)).size).toBe(2);
  });
});

describe('mail that nobody needs', () => {
  it('is not sent again once it was', async () => {
    const id = await ask();
    const { send } = sender();
    expect([await send(id), await send(id)]).toEqual(['sent', 'sent']);
    expect(smtp.sources).toHaveLength(1);
  });

  it.each(['approved', 'rejected'] as const)('is not sent about a question that is %s', async (status) => {
    const id = await ask();
    await decide(id, status, treasurer);
    expect(await sender().send(id)).toBe('unneeded');
    expect(smtp.sources).toHaveLength(0);
    expect(await noticeTo(id)).toMatchObject({ status: 'waiting', error: null });
  });

  it('is not sent about a question whose time is over', async () => {
    const id = await ask();
    await pool.query('update approvals set expires_at = now() where id = $1', [id]);
    expect(await sender().send(id)).toBe('unneeded');
  });

  it('is not sent to somebody who has decided already, and is to the others', async () => {
    const id = await ask({ required_approvals: 2 });
    await decide(id, 'pending', ops);
    const { send } = sender();
    expect(await send(id, ops)).toBe('unneeded');
    expect(await send(id, treasurer)).toBe('sent');
    expect(smtp.mails.map(({ recipients }) => recipients)).toEqual([[treasurer]]);
    expect(smtp.mails[0]!.parsed.text).toContain('So far 1 agreed.');
  });

  it('is an error of the caller for a question or a person that there is not', async () => {
    const { send } = sender();
    const failures = [await failureOf(send(newId('apr'))), await failureOf(send(await ask(), 'mallory@example.com'))];
    for (const failure of failures) expect(failure).toMatchObject({ type: 'NotFound', nonRetryable: true });
    expect(smtp.sources).toHaveLength(0);
  });
});

describe('mail that is sent twice at once', () => {
  it('has the same Message-ID, and both links work', async () => {
    const id = await ask();
    const { send } = sender();
    expect(await Promise.all([send(id), send(id)])).toEqual(['sent', 'sent']);
    const messageIds = new Set(smtp.mails.map(({ parsed }) => parsed.messageId));
    expect(messageIds.size).toBe(1);
    for (const { parsed } of smtp.mails) expect(await linkOf(tokenIn(parsed.text))).toMatchObject({ approval_id: id });
    expect(await noticeTo(id)).toMatchObject({ status: 'sent' });
  });
});

describe('a mail server that does not take the mail', () => {
  it('is tried again when it was away', async () => {
    const id = await ask();
    const port = await freePort();
    const { send } = sender({ server: local(port) });
    const message = 'The mail server cannot be reached (ECONNREFUSED).';
    expect(await failureOf(send(id))).toMatchObject({ type: 'MailNotSent', message, nonRetryable: false });
    expect(await noticeTo(id)).toMatchObject({ status: 'waiting', error: message, sent_at: null });
    const back = await startSmtpServer({ port });
    expect(await send(id)).toBe('sent');
    expect(await linkOf(tokenIn(back.mails[0]!.parsed.text))).toMatchObject({ approval_id: id });
    expect(await noticeTo(id)).toMatchObject({ status: 'sent', error: null });
    await back.stop();
  });

  it('is tried again when it says "later", by a mail with the same Message-ID and a new link', async () => {
    const id = await ask();
    const { send } = sender();
    smtp.behave({ onMail: () => '450 4.7.1 Greylisted, come back in a minute' });
    const message = 'The mail server answered 450 4.7.1 to the mail: Greylisted, come back in a minute';
    expect(await failureOf(send(id))).toMatchObject({ type: 'MailNotSent', message, nonRetryable: false });
    expect(await noticeTo(id)).toMatchObject({ status: 'waiting', error: message });
    smtp.behave({});
    expect(await send(id)).toBe('sent');
    const [first, second] = smtp.sources as [string, string];
    const messageId = /^Message-ID: .*$/m;
    expect(messageId.exec(first)![0]).toBe(messageId.exec(second)![0]);
    expect(smtp.mails).toHaveLength(1);
  });

  it('is not asked again for a person whom it does not know, and the others are told', async () => {
    const id = await ask();
    const { send } = sender();
    smtp.behave({ onRecipient: (address) => (address === ops ? '550 5.1.1 No such user here' : undefined) });
    const message = 'The mail server answered 550 5.1.1 to the recipient: No such user here';
    expect(await failureOf(send(id))).toMatchObject({ type: 'MailRefused', message, nonRetryable: true });
    expect(await send(id, treasurer)).toBe('sent');
    expect((await getApproval(pool, { id }))!.notices).toEqual([
      { approver: ops, status: 'failed', error: message, sent_at: null },
      { approver: treasurer, status: 'sent', error: null, sent_at: expect.any(String) },
    ]);
  });

  it.each(['whole', 'folded', 'in pieces'])('tells nobody the token that it repeats %s', async (form) => {
    const id = await ask();
    let token = '';
    smtp.behave({
      onMail(source) {
        // Undo the soft line breaks of quoted-printable (RFC 2045, 6.7).
        token = tokenIn(source.replaceAll(/=\r?\n/g, ''));
        const piece = form === 'in pieces' ? token.replaceAll(/(.{7})/g, '$1 ') : token;
        return form === 'folded'
          ? `554 5.7.1 ${source
              .slice(source.indexOf('/approve/') - 40)
              .slice(0, 400)
              .replaceAll(/\s+/g, ' ')}`
          : `554 5.7.1 Your link /approve/${piece} is on a block list`;
      },
    });
    const failure = await failureOf(sender().send(id));
    expect(failure).toMatchObject({ type: 'MailRefused', nonRetryable: true });
    expect(failure.message).toMatch(/^The mail server answered 554 5\.7\.1 to the mail/);
    const places = [
      await everythingStored(),
      logged.join('\n'),
      JSON.stringify(failure),
      failure.message,
      failure.stack!,
    ];
    expect(logged).toHaveLength(1);
    expectNowhere(token, ...places);
    for (let start = 0; start + 8 <= token.length; start += 1)
      for (const place of places) expect(place.replaceAll(' ', '')).not.toContain(token.slice(start, start + 8));
  });
});

describe('a mail server that hangs', () => {
  let hanging: Server;
  let sockets: Socket[];
  const hang = async (talk: (socket: Socket) => void) => {
    sockets = [];
    hanging = createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => {});
      talk(socket);
    }).listen(0, '127.0.0.1');
    await once(hanging, 'listening');
    return local((hanging.address() as AddressInfo).port);
  };
  afterEach(async () => {
    for (const socket of sockets) socket.destroy();
    hanging.close();
    await once(hanging, 'close');
  });

  it.each([
    ['before its greeting', () => {}],
    ['after its greeting', (socket: Socket) => void socket.write('220 hello\r\n')],
  ])('%s is given up by its timeouts', async (_when, talk) => {
    const id = await ask();
    const { send } = sender({ server: await hang(talk), timeouts: impatient });
    const message = 'The mail server did not answer in time (ETIMEDOUT).';
    expect(await failureOf(send(id))).toMatchObject({ type: 'MailNotSent', message, nonRetryable: false });
    expect(await noticeTo(id)).toMatchObject({ status: 'waiting', error: message });
  });

  it('with a sign of life now and then is given up by the deadline', async () => {
    const trickle = (socket: Socket) => {
      socket.write('220 hello\r\n');
      const timer = setInterval(() => socket.write('250-still here\r\n'), 50);
      socket.on('close', () => clearInterval(timer));
    };
    const { send } = sender({ server: await hang(trickle), deadlineMs: 700 });
    const message = 'The mail server did not take the mail in time (EABORT).';
    expect(await failureOf(send(await ask()))).toMatchObject({ type: 'MailNotSent', message });
  });

  it('does not hold up a worker that is to end', async () => {
    const server = await hang((socket) => void socket.write('220 hello\r\n250-'));
    const { send, cancel } = sender({ server, deadlineMs: 60_000 });
    const attempt = failureOf(send(await ask()));
    await expect.poll(() => sockets).toHaveLength(1);
    cancel();
    expect(await attempt).toMatchObject({ type: 'MailNotSent', nonRetryable: false });
  });
});

describe('the way to the mail server', () => {
  it('must be encrypted in production, unless the server is on the same machine', async () => {
    // By this address the machine reaches itself, and nothing says so.
    const elsewhere = await startSmtpServer({ host: '0.0.0.0' });
    const server = { ...local(elsewhere.port), host: '0.0.0.0' };
    const id = await ask();
    const failure = await failureOf(sender({ server, mustEncrypt: true }).send(id));
    expect(failure).toMatchObject({ type: 'MailNotSent', nonRetryable: false });
    expect(elsewhere.sources).toHaveLength(0);
    expect(await sender({ server, mustEncrypt: false }).send(id)).toBe('sent');
    expect(await sender({ mustEncrypt: true }).send(await ask())).toBe('sent');
    await elsewhere.stop();
  });

  it('is not taken when the certificate is nobody’s', async () => {
    const secure = await startSmtpServer({ secure: true });
    const failure = await failureOf(sender({ server: { ...local(secure.port), secure: true } }).send(await ask()));
    expect(failure).toMatchObject({
      type: 'MailNotSent',
      message: expect.stringMatching(/^There is no safe connection .*CERT/),
    });
    expect(secure.sources).toHaveLength(0);
    await secure.stop();
  });

  it('is signed in with user and password, which no error repeats', async () => {
    const closed = await startSmtpServer({
      disabledCommands: ['STARTTLS'],
      allowInsecureAuth: true,
      onAuth({ username, password }, _session, callback) {
        const isRight = username === 'purser' && password === 'correcthorse';
        callback(isRight ? null : new Error(`${password} is wrong`), isRight ? { user: username } : {});
      },
    });
    const id = await ask();
    const server = (pass: string) => ({ ...local(closed.port), auth: { user: 'purser', pass } });
    const failure = await failureOf(sender({ server: server('batterystaple') }).send(id));
    expect(failure).toMatchObject({ type: 'MailNotSent', nonRetryable: false });
    expect(failure.message).toBe('The mail server answered 535 to our credentials.');
    expect(failure.message + logged.join()).not.toContain('batterystaple');
    expect(await sender({ server: server('correcthorse') }).send(id)).toBe('sent');
    await closed.stop();
  });
});
