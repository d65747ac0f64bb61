import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SMTPServer, type SMTPServerDataStream, type SMTPServerOptions } from 'smtp-server';
import type { MailStore } from './mail-store.ts';
import { LOOPBACK } from './ports.ts';

const MAIL_LIMIT_BYTES = 256 * 1_024;
const MAX_RECIPIENTS = 50;
const MAX_CLIENTS = 20;
const IDLE_TIMEOUT_MS = 30_000;
/** How long a mail that is under way when we stop may take. */
const CLOSE_TIMEOUT_MS = 1_000;

/** A local SMTP server that takes mails for everybody and sends none on. */
export interface MailReceiver {
  /** As nodemailer takes it. */
  url: string;
  stop(): Promise<void>;
}

/** Listens on the loopback interface and puts what comes into the store; 250 is said when it is on the disk. */
export async function startMailReceiver(store: MailStore, { port }: { port: number }): Promise<MailReceiver> {
  const options: SMTPServerOptions = {
    name: 'localhost',
    banner: 'Purser development mailbox',
    logger: false,
    // No passwords and no certificates: nothing leaves this machine.
    disabledCommands: ['AUTH', 'STARTTLS'],
    authOptional: true,
    disableReverseLookup: true,
    size: MAIL_LIMIT_BYTES,
    rejectOversized: true,
    maxRecipients: MAX_RECIPIENTS,
    maxClients: MAX_CLIENTS,
    socketTimeout: IDLE_TIMEOUT_MS,
    closeTimeout: CLOSE_TIMEOUT_MS,
    onData(stream, { envelope }, callback) {
      const recipients = envelope.rcptTo.map(({ address }) => address);
      readMail(stream)
        .then((source) => source && store.add({ recipients, source }))
        .then(() => callback(), callback);
    },
  };
  const server = new SMTPServer(options);
  // What fails is a connection, such as that of a sender who hangs up; that is the sender's to notice.
  server.on('error', () => {});
  const listening = server.listen(port, LOOPBACK);
  await once(listening, 'listening');
  return {
    url: `smtp://${LOOPBACK}:${(listening.address() as AddressInfo).port}`,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** Undefined when it is too large: the server then refuses it, but must be read to the end. */
async function readMail(stream: SMTPServerDataStream): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length <= MAIL_LIMIT_BYTES) chunks.push(chunk);
  }
  return length <= MAIL_LIMIT_BYTES ? Buffer.concat(chunks) : undefined;
}
