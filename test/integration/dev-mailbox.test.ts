import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTransport, type SendMailOptions } from 'nodemailer';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openMailStore } from '../../dev/mail-store.ts';
import { type Mailbox, startMailbox } from '../../dev/mailbox.ts';
import { launchBrowser } from '../support/browser.ts';

const keptMails = 200;
const limitBytes = 256 * 1024;
const link = 'http://127.0.0.1:8080/approve/dGhpcyBpcyBub3QgYSB0b2tlbiBvZiBvdXJzLCBvZiBj';

let home: string;
let mailbox: Mailbox;

const start = () => startMailbox({ dir: join(home, 'mail'), smtpPort: 0, httpPort: 0 });

beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), 'purser-mailbox-'));
  mailbox = await start();
});
afterEach(async () => {
  await mailbox.stop();
  rmSync(home, { recursive: true, force: true });
});

async function send(mail: SendMailOptions): Promise<void> {
  const transport = createTransport(mailbox.smtpUrl);
  await transport.sendMail({ from: 'Purser <purser@example.com>', to: 'treasurer@example.com', ...mail });
  transport.close();
}

interface WireMail {
  id: string;
  to: string;
  subject: string;
  date: string;
  text: string;
  links: string[];
}
const mails = async () => ((await (await fetch(`${mailbox.url}/api/mails`)).json()) as { data: WireMail[] }).data;
const page = async (path: string) => {
  const response = await fetch(`${mailbox.url}${path}`);
  return { status: response.status, headers: response.headers, html: await response.text() };
};

/** A request with any headers, which `fetch` would not send. */
function call(o: { method?: string; path: string; headers?: Record<string, string>; body?: string }) {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const { method = 'GET', path, headers = {}, body } = o;
    const sent = request(`${mailbox.url}${path}`, { method, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode!, body: text }));
    });
    sent.once('error', reject);
    sent.end(body);
  });
}

describe('the mailbox', () => {
  it('says what sends a mail while there is none', async () => {
    expect(await mails()).toEqual([]);
    const { status, html } = await page('/');
    expect(status).toBe(200);
    expect(html).toContain('No mail yet. A payment above the threshold of a <code>human_approval</code> policy');
  });

  it('lists the newest first, and shows one with its text and a link that opens in a new tab', async () => {
    await send({ subject: 'First', text: 'One' });
    await send({
      subject: 'Approve 150 USDC?',
      text: `Payment of 150 USDC – please decide (${link}).`,
      html: `<p>Payment of <b>150 USDC</b> – <a href="${link}">decide</a></p>`,
    });
    const [second, first] = await mails();
    expect(second).toEqual({
      id: expect.stringMatching(/^\d{8}T\d{9}Z$/),
      to: 'treasurer@example.com',
      subject: 'Approve 150 USDC?',
      date: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      text: `Payment of 150 USDC – please decide (${link}).`,
      links: [link],
    });
    expect(Math.abs(Date.now() - Date.parse(second!.date))).toBeLessThan(60_000);
    expect(first).toMatchObject({ subject: 'First', text: 'One', links: [] });

    const list = (await page('/')).html;
    expect(list.indexOf('Approve 150 USDC?')).toBeLessThan(list.indexOf('First'));
    expect(list).toContain('To treasurer@example.com');
    const shown = await page(`/mails/${second!.id}`);
    expect(shown.html).toContain('<dd>&quot;Purser&quot; &lt;purser@example.com&gt;</dd>');
    expect(shown.html).toContain(`<a href="${link}" target="_blank" rel="noopener noreferrer">${link}</a>).</pre>`);
    expect(shown.html).toContain(`<iframe src="/mails/${second!.id}/html"`);
    const frame = await page(`/mails/${second!.id}/html`);
    expect(frame.html).toContain('<p>Payment of <b>150 USDC</b>');
    // A mail without HTML has no frame, and nothing that could be in it.
    expect((await page(`/mails/${first!.id}`)).html).not.toContain('<iframe');
    expect((await page(`/mails/${first!.id}/html`)).status).toBe(404);
  });

  it('says to whom a mail was delivered, whatever its headers say', async () => {
    await send({
      to: 'ceo@example.com',
      headers: { 'Delivered-To': 'forged@example.com' },
      envelope: { from: 'a@example.com', to: 'b@example.com' },
    });
    expect((await mails())[0]!.to).toBe('b@example.com');
  });

  it('shows text of a sender as text, wherever it stands', async () => {
    const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'`;
    await send({
      from: { name: hostile, address: 'mallory@example.com' },
      subject: hostile,
      text: `${hostile} http://example.com/"onmouseover="alert(3) javascript:alert(4)`,
    });
    const [mail] = await mails();
    expect(mail).toMatchObject({ subject: hostile, links: ['http://example.com/'] });
    for (const path of ['/', `/mails/${mail!.id}`]) {
      const { html } = await page(path);
      expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
      expect(html).not.toMatch(/<script|<img|"onmouseover|href="javascript/);
    }
  });

  it('answers every page with a policy that runs no script and lets nobody frame it', async () => {
    await send({ html: '<p>Hello</p>' });
    const [mail] = await mails();
    for (const path of ['/', `/mails/${mail!.id}`, '/mails/none']) {
      const { headers, html } = await page(path);
      expect(headers.get('content-security-policy')).toBe(
        "default-src 'none'; style-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      );
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('referrer-policy')).toBe('no-referrer');
      expect(html).not.toContain('<script');
    }
    const frame = await page(`/mails/${mail!.id}/html`);
    expect(frame.headers.get('content-security-policy')).toBe(
      "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    );
  });

  it('lets no HTML of a mail run, load anything or leave its frame, but open links in new tabs', async () => {
    const asked: string[] = [];
    const evil = createServer((incoming, response) => {
      asked.push(incoming.url!);
      response
        .setHeader('content-type', 'text/html')
        .end('<title>loaded</title><script>document.title = opener</script>');
    }).listen(0, '127.0.0.1');
    await once(evil, 'listening');
    const at = `http://127.0.0.1:${(evil.address() as AddressInfo).port}`;
    await send({
      html: `<html><head><base href="${at}/base/" target="_top"><meta http-equiv="refresh" content="0;url=${at}/refresh">
        <link rel="stylesheet" href="${at}/css"><link rel="preload" as="image" href="${at}/preload"><style>
        @import url(${at}/import); p { background: url(${at}/background) }</style></head>
        <body onload="location='${at}/onload'"><p>Hello</p><script>top.location='${at}/script'</script>
        <script src="${at}/src"></script><img src="${at}/img" onerror="fetch('${at}/onerror')"><iframe src="${at}/frame"></iframe>
        <svg onload="fetch('${at}/svg')"></svg><object data="${at}/object"></object><video src="${at}/video" autoplay></video>
        <form action="${at}/form" id="f"><button id="submit">Send</button></form>
        <a id="top" href="${at}/top" target="_top">top</a> <a id="self" href="${at}/self" target="_self">self</a>
        <a id="script" href="javascript:top.location='${at}/javascript'" target="_self">script</a>
        <a id="plain" href="${at}/plain">plain</a></body></html>`,
    });
    const url = `${mailbox.url}/mails/${(await mails())[0]!.id}`;
    const browser = await launchBrowser();
    try {
      const tab = await browser.newPage();
      await tab.goto(url);
      const frame = tab.frameLocator('iframe');
      for (const id of ['submit', 'top', 'script']) await frame.locator(`#${id}`).click();
      expect(tab.url()).toBe(url);
      const opened = tab.context().waitForEvent('page');
      await frame.locator('#plain').click();
      const page = await opened;
      await expect.poll(() => page.title()).toBe('null');
      expect(page.url()).toBe(`${at}/plain`);
      expect(await page.evaluate('document.referrer')).toBe('');
      await frame.locator('#self').click();
      // The browser has put an error page into the frame: only our own pages may stand there.
      await expect.poll(() => tab.frames()[1]!.url()).toBe('chrome-error://chromewebdata/');
      expect(asked.filter((path) => path !== '/favicon.ico')).toEqual(['/plain']);
    } finally {
      await browser.close();
      evil.close();
    }
  });

  it('refuses a mail that is too large, and keeps nothing of it', async () => {
    await expect(send({ text: 'x'.repeat(limitBytes) })).rejects.toMatchObject({ code: 'EMESSAGE' });
    // A sender who says no size, and does not care about ours.
    const answer = await speakSmtp([
      'EHLO test',
      'MAIL FROM:<a@example.com>',
      'RCPT TO:<b@example.com>',
      'DATA',
      `${`${'x'.repeat(70)}\r\n`.repeat(limitBytes / 64)}.`,
    ]);
    expect(answer.at(-1)).toMatch(/^552 /);
    expect(await mails()).toEqual([]);
    expect(readdirSync(join(home, 'mail'))).toEqual([]);
  });

  it('takes mail for at most 50 people at once, and no passwords', async () => {
    const answers = await speakSmtp([
      'EHLO test',
      'MAIL FROM:<a@example.com>',
      ...Array.from({ length: 51 }, (_, index) => `RCPT TO:<person-${index}@example.com>`),
    ]);
    expect(answers.slice(-51, -1).every((answer) => answer.startsWith('250 '))).toBe(true);
    expect(answers.at(-1)).toMatch(/^452 /);
    expect(answers.join('\n')).not.toMatch(/AUTH|STARTTLS/);
    expect(await speakSmtp(['EHLO test', 'AUTH PLAIN AGEAYg=='])).toContainEqual(expect.stringMatching(/^5\d\d /));
  });

  it('keeps the newest 200, over a restart too, in files that nobody else may read', async () => {
    const transport = createTransport({
      url: mailbox.smtpUrl,
      pool: true,
      maxConnections: 1,
      maxMessages: Infinity,
    } as object);
    for (let index = 1; index <= keptMails + 1; index += 1)
      await transport.sendMail({ from: 'a@example.com', to: 'b@example.com', subject: `Mail ${index}`, text: '.' });
    transport.close();
    const expected = Array.from({ length: keptMails }, (_, index) => `Mail ${keptMails + 1 - index}`);
    expect((await mails()).map(({ subject }) => subject)).toEqual(expected);

    await mailbox.stop();
    mailbox = await start();
    expect((await mails()).map(({ subject }) => subject)).toEqual(expected);
    await send({ subject: 'After', text: '.' });
    expect((await mails()).map(({ subject }) => subject)).toEqual(['After', ...expected.slice(0, -1)]);

    const dir = join(home, 'mail');
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    const files = readdirSync(dir);
    expect(files).toHaveLength(keptMails);
    expect(new Set(files.map((name) => statSync(join(dir, name)).mode & 0o777))).toEqual(new Set([0o600]));
  });

  it('keeps all of those that come in one moment', async () => {
    const store = openMailStore({ dir: join(home, 'mail') });
    const names = Array.from({ length: 20 }, (_, index) => `Mail ${index}`);
    await Promise.all(
      names.map((name) =>
        store.add({ recipients: ['a@example.com'], source: Buffer.from(`Subject: ${name}\r\n\r\n.`) }),
      ),
    );
    expect((await mails()).map(({ subject }) => subject).sort()).toEqual(names.sort());
  });

  it('knows only its own mails and paths', async () => {
    for (const path of ['/mails/20260101T000000000Z', '/mails/..%2Fkeys', '/mails/%2e%2e/html', '/favicon.ico'])
      expect((await page(path)).status, path).toBe(404);
    expect((await call({ method: 'DELETE', path: '/' })).status).toBe(405);
  });

  it('refuses every name but those of this machine, so that no domain that points here can read mail', async () => {
    await send({ subject: 'Secret', text: link });
    for (const host of [
      'evil.example',
      'evil.example:8025',
      '127.0.0.1.evil.example',
      'localhost.evil.example',
      '192.168.0.1',
    ])
      for (const path of ['/', '/api/mails', '/mailbox.css']) {
        const { status, body } = await call({ path, headers: { host } });
        expect(status, `${host}${path}`).toBe(403);
        expect(body).not.toContain('Secret');
      }
    for (const host of ['localhost', 'LOCALHOST:9', '127.0.0.1:9', '[::1]:9'])
      expect((await call({ path: '/api/mails', headers: { host } })).status, host).toBe(200);
  });
});

/** Speaks SMTP line by line, as a sender that keeps to no limit; returns the last line of each answer. */
function speakSmtp(lines: string[]): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(mailbox.smtpUrl).port), '127.0.0.1');
    const answers: string[] = [];
    const waiting = [...lines];
    let buffered = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      buffered += chunk;
      for (let end = buffered.indexOf('\r\n'); end >= 0; end = buffered.indexOf('\r\n')) {
        const line = buffered.slice(0, end);
        buffered = buffered.slice(end + 2);
        answers.push(line);
        // "250-" announces more lines of the same answer.
        if (line[3] === '-') continue;
        const next = waiting.shift();
        if (next === undefined) socket.end();
        else socket.write(`${next}\r\n`);
      }
    });
    socket.once('error', reject);
    socket.once('close', () => resolve(answers));
  });
}
