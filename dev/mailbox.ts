import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inboxPage, mailBody, mailPage, mailPolicy, pagePolicy, sentencePage, style, stylePath } from './mail-pages.ts';
import { startMailReceiver } from './mail-receiver.ts';
import { type MailStore, openMailStore } from './mail-store.ts';
import { LOOPBACK } from './ports.ts';

/** Names under which a browser of this machine reaches us. Any other is somebody's domain that points here. */
const LOOPBACK_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?$/i;

/** The mail of everybody, on this machine only. */
export interface Mailbox {
  /** Where to send mail; no user, no password. */
  smtpUrl: string;
  /** The inbox as a page; `GET /api/mails` is the same as JSON. */
  url: string;
  stop(): Promise<void>;
}

export interface MailboxOptions {
  /** Folder of the mails. */
  dir: string;
  /** 0 takes any free one, also of `httpPort`. */
  smtpPort: number;
  httpPort: number;
}

/**
 * Takes mail over SMTP and shows it over HTTP, both on the loopback interface. Mails are untrusted: their HTML runs no
 * script, loads nothing and cannot leave its frame.
 */
export async function startMailbox({ dir, smtpPort, httpPort }: MailboxOptions): Promise<Mailbox> {
  const store = openMailStore({ dir });
  const server = createServer((request, response) => {
    answer(store, { request, response }).catch((error: Error) => {
      if (response.headersSent) return void response.destroy();
      sendJson(response, { status: 500, body: { message: error.message } });
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(httpPort, LOOPBACK, resolve);
  });
  const stopHttp = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  try {
    const receiver = await startMailReceiver(store, { port: smtpPort });
    return {
      smtpUrl: receiver.url,
      url: `http://${LOOPBACK}:${(server.address() as AddressInfo).port}`,
      async stop() {
        await receiver.stop();
        await stopHttp();
      },
    };
  } catch (error) {
    await stopHttp();
    throw error;
  }
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

async function answer(store: MailStore, { request, response }: Exchange): Promise<void> {
  const { method = '', url = '', headers } = request;
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Referrer-Policy', 'no-referrer');
  response.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
  response.setHeader('Cache-Control', 'no-store');
  if (!LOOPBACK_HOST.test(headers.host ?? '')) {
    return sendJson(response, { status: 403, body: { message: 'The mailbox is for this machine: use 127.0.0.1.' } });
  }
  if (method !== 'GET' && method !== 'HEAD') {
    response.setHeader('Allow', 'GET, HEAD');
    return sendJson(response, { status: 405, body: { message: 'Use GET.' } });
  }
  if (url === stylePath) return send(response, { type: 'text/css', body: style });
  if (url === '/') return sendPage(response, { html: inboxPage(await store.list()) });
  if (url === '/api/mails') return sendJson(response, { status: 200, body: { data: (await store.list()).map(wire) } });
  const [, id = '', body] = /^\/mails\/([^/]+)(\/html)?$/.exec(url) ?? [];
  const mail = await store.get(id);
  if (!mail || (body && mail.html === undefined)) {
    return sendPage(response, { status: 404, html: sentencePage('There is no such mail; only the newest are kept.') });
  }
  if (body) return sendPage(response, { html: mailBody(mail.html!), policy: mailPolicy });
  sendPage(response, { html: mailPage(mail) });
}

function sendPage(
  response: ServerResponse,
  { status = 200, html, policy = pagePolicy }: { status?: number; html: string; policy?: string },
): void {
  response.setHeader('Content-Security-Policy', policy);
  send(response, { status, type: 'text/html', body: html });
}

function sendJson(response: ServerResponse, { status, body }: { status: number; body: object }): void {
  send(response, { status, type: 'application/json', body: JSON.stringify(body) });
}

function send(
  response: ServerResponse,
  { status = 200, type, body }: { status?: number; type: string; body: string },
): void {
  response.writeHead(status, { 'Content-Type': `${type}; charset=utf-8` });
  response.end(body);
}

const wire = ({ id, to, subject, date, text, links }: Awaited<ReturnType<MailStore['list']>>[number]) => ({
  id,
  to,
  subject,
  date: date.toISOString(),
  text,
  links,
});
