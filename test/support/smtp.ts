import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { type ParsedMail, simpleParser } from 'mailparser';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';

export interface TakenMail {
  readonly recipients: readonly string[];
  /** As it came over the line. */
  readonly source: string;
  readonly parsed: ParsedMail;
}

/** What the server does with a step; a string of the form `550 5.1.1 No such user` refuses it. */
export interface SmtpBehaviour {
  readonly onRecipient?: (address: string) => string | undefined;
  readonly onMail?: (source: string) => string | undefined;
}

export interface TestSmtpServer {
  readonly port: number;
  readonly mails: readonly TakenMail[];
  /** Mails that were sent as far as their end, taken or not. */
  readonly sources: readonly string[];
  behave(behaviour: SmtpBehaviour): void;
  stop(): Promise<void>;
}

const refusal = (reply: string | undefined) => {
  if (reply === undefined) return null;
  return Object.assign(new Error(reply.slice(4)), { responseCode: Number(reply.slice(0, 3)) });
};

/** A real SMTP server that keeps what it takes in memory. */
export async function startSmtpServer({
  port = 0,
  host = '127.0.0.1',
  ...options
}: SMTPServerOptions & { port?: number; host?: string } = {}): Promise<TestSmtpServer> {
  const mails: TakenMail[] = [];
  const sources: string[] = [];
  let behaviour: SmtpBehaviour = {};
  const server = new SMTPServer({
    logger: false,
    disabledCommands: ['AUTH', 'STARTTLS'],
    disableReverseLookup: true,
    closeTimeout: 100,
    ...options,
    onRcptTo({ address }, _session, callback) {
      callback(refusal(behaviour.onRecipient?.(address)));
    },
    onData(stream, { envelope }, callback) {
      const recipients = envelope.rcptTo.map(({ address }) => address);
      text(stream).then(async (source) => {
        sources.push(source);
        const reply = behaviour.onMail?.(source);
        if (reply === undefined) mails.push({ recipients, source, parsed: await simpleParser(source) });
        callback(refusal(reply));
      }, callback);
    },
  });
  // Connections that break are what some tests are about.
  server.on('error', () => {});
  const listening = server.listen(port, host);
  await once(listening, 'listening');
  return {
    port: (listening.address() as AddressInfo).port,
    mails,
    sources,
    behave: (next) => {
      behaviour = next;
    },
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
