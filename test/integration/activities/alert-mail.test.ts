import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createSendAlertMail } from '../../../activities/send-alert-mail.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { closeAlert, insertAlert, untoldAlerts } from '../../../shared/db/signer-alerts.ts';
import type { SignerFinding } from '../../../shared/domain/signer-alerts.ts';
import { createMailTransport, type MailTransport } from '../../../worker/mail-transport.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { startSmtpServer, type TestSmtpServer } from '../../support/smtp.ts';

const from = { name: 'Purser', address: 'purser@example.com' };
const ops = { name: 'Ops', address: 'ops@example.com' };
const duty = { name: '', address: 'duty@example.com' };
let database: TestDatabase;
let pool: Pool;
let smtp: TestSmtpServer;
let transport: MailTransport;
let logged: Record<string, unknown>[] = [];

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
  const server = { host: '127.0.0.1', port: smtp.port, secure: false, auth: undefined };
  transport = createMailTransport({ server, mustEncrypt: false });
  await pool.query('delete from signer_alerts');
  logged = [];
  return async () => {
    transport.close();
    await smtp.stop();
  };
});

function send({ alertTo = [ops, duty] } = {}): Promise<number> {
  const logger = pino({ level: 'info' }, { write: (line: string) => void logged.push(JSON.parse(line)) });
  const environment = new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') });
  return environment.run(createSendAlertMail({ pool, logger, transport, from, alertTo })) as Promise<number>;
}
const banned = (keyId = 'ckey_1'): SignerFinding => ({
  ...{ kind: 'signer_banned', party: 2, keyId },
  detail: 'signer 1 does nothing more with it: see https://evil.example/now',
});
const foundAt = new Date('2026-11-28T12:00:00Z');
const open = (finding: SignerFinding) => insertAlert(pool, { finding, opens: true, now: foundAt });

describe('mail about the signers', () => {
  it('says to everybody who is to know what is wrong since when, and what to do', async () => {
    await open(banned());
    expect(await send()).toBe(1);
    expect(smtp.mails).toHaveLength(1);
    const { recipients, parsed } = smtp.mails[0]!;
    expect(recipients).toEqual([ops.address, duty.address]);
    expect(parsed.from?.value).toEqual([from]);
    expect(parsed.subject).toBe('Purser: Signer 2 is banned from key ckey_1');
    expect(parsed.headers.get('auto-submitted')).toBe('auto-generated');
    const text = parsed.text!.replaceAll(/\s+/g, ' ');
    expect(text).toContain('Signer 2 is banned from key ckey_1, since Saturday 28 November 2026, 12:00 UTC.');
    expect(text).toContain('npm run signers -- unban --key ckey_1');
    expect(text).toContain('does nothing more with it');
    // A signer may say what it likes: it makes no link.
    expect(text).not.toMatch(/https?:\/\//);
    for (const line of parsed.text!.split('\n')) expect(line.length).toBeLessThanOrEqual(72);
  });

  it('tells of each beginning and each end once', async () => {
    const id = await open(banned());
    await open(banned('ckey_2'));
    expect(await send()).toBe(2);
    expect(smtp.mails[0]!.parsed.subject).toBe('Purser: Signer 2 is banned from key ckey_1 (and 1 more)');
    expect(await send()).toBe(0);
    await closeAlert(pool, { id, now: new Date('2026-11-28T14:30:00Z') });
    expect(await send()).toBe(1);
    expect(smtp.mails[1]!.parsed.subject).toBe('Purser: over: Signer 2 is banned from key ckey_1');
    expect(smtp.mails[1]!.parsed.text!.replaceAll(/\s+/g, ' ')).toContain(
      'Over: Signer 2 is banned from key ckey_1, from Saturday 28 November 2026, 12:00 UTC to Saturday 28 November 2026, 14:30 UTC.',
    );
    expect(await send()).toBe(0);
    expect(smtp.mails).toHaveLength(2);
  });

  it('tells of what began and ended unsaid by one mail, and of nothing that has not lasted', async () => {
    const id = await open(banned());
    await closeAlert(pool, { id, now: new Date('2026-11-28T14:30:00Z') });
    await insertAlert(pool, { finding: banned('ckey_2'), opens: false, now: foundAt });
    expect(await send()).toBe(1);
    expect(await untoldAlerts(pool, { limit: 10 })).toEqual([]);
    expect(smtp.mails).toHaveLength(1);
  });

  it('still tells of the end of what ended while its beginning was told', async () => {
    const id = await open(banned());
    smtp.behave({
      onMail: () => {
        void closeAlert(pool, { id, now: new Date('2026-11-28T14:30:00Z') });
        return undefined;
      },
    });
    expect(await send()).toBe(1);
    expect(await send()).toBe(1);
    expect(smtp.mails.map(({ parsed }) => parsed.subject)).toEqual([
      'Purser: Signer 2 is banned from key ckey_1',
      'Purser: over: Signer 2 is banned from key ckey_1',
    ]);
  });

  it('goes to nobody where nobody is named, and counts as told', async () => {
    await open(banned());
    expect(await send({ alertTo: [] })).toBe(1);
    expect(await send()).toBe(0);
    expect(smtp.mails).toEqual([]);
  });

  it('is sent again with the same Message-ID until the server takes it', async () => {
    await open(banned());
    smtp.behave({ onMail: () => '451 4.3.0 Later' });
    const error = await send().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ApplicationFailure);
    expect(error).toMatchObject({
      type: 'MailNotSent',
      nonRetryable: false,
      message: expect.stringContaining('451 4.3.0'),
    });
    expect(logged).toMatchObject([{ level: 50, msg: 'operators could not be told of alerts by mail' }]);
    smtp.behave({});
    expect(await send()).toBe(1);
    const ids = smtp.sources.map((source) => /^message-id: (.*)$/im.exec(source)![1]);
    expect(ids).toHaveLength(2);
    expect(ids[0]).toBe(ids[1]);
  });

  it('is told when one of them is not known to the server, and the log says so', async () => {
    await open(banned());
    smtp.behave({ onRecipient: (address) => (address === duty.address ? '550 5.1.1 No such user' : undefined) });
    expect(await send()).toBe(1);
    expect(smtp.mails[0]!.recipients).toEqual([ops.address]);
    expect(logged).toMatchObject([{ level: 50, refused: 1 }]);
  });

  it('is of a length that can be read; the rest follows', async () => {
    for (let index = 0; index < 60; index += 1) await open(banned(`ckey_${index}`));
    expect(await send()).toBe(50);
    expect(await send()).toBe(10);
    expect(await send()).toBe(0);
  });
});
