import { createTransport, type SMTPPoolOptions, type SMTPPoolSentMessageInfo, type Transporter } from 'nodemailer';
import { isLoopback } from '../shared/domain/loopback.ts';
import type { SmtpServer } from '../shared/mail-settings.ts';

/** Connections to the mail server at a time; servers often allow ten for each client. */
export const mailConnections = 5;
/** Mails over one connection, then a new one. */
const maxMessages = 100;
/** A kept connection that the server has closed in between is replaced once; everything else is Temporal's to repeat. */
const maxRequeues = 1;
/** Kept for the next mail, and shorter than servers keep it. */
const idleTimeoutMs = 30_000;
/** A reply is a line or a few. */
const maxResponseBytes = 16 * 1024;

export type MailTransport = Transporter<SMTPPoolSentMessageInfo, SMTPPoolOptions>;

/** How long the server may take, in milliseconds. */
export interface MailTimeouts {
  /** To find and reach it, up to the end of STARTTLS. */
  readonly connectMs: number;
  /** Until its first line. */
  readonly greetingMs: number;
  /** Between two signs of life; some look through a mail for a while before they take it. */
  readonly socketMs: number;
}
const defaultTimeouts: MailTimeouts = { connectMs: 15_000, greetingMs: 10_000, socketMs: 60_000 };

/**
 * The pool of connections to the mail server. Certificates are always checked (`NODE_EXTRA_CA_CERTS` adds an authority).
 * @param mustEncrypt refuses a server that offers no TLS, unless it is on this machine. There STARTTLS is never used:
 *   nobody is in between, and local servers sign for themselves
 */
export function createMailTransport({
  server: { host, port, secure, auth },
  mustEncrypt,
  timeouts: { connectMs, greetingMs, socketMs } = defaultTimeouts,
}: {
  server: SmtpServer;
  mustEncrypt: boolean;
  timeouts?: MailTimeouts;
}): MailTransport {
  const isLocal = isLoopback(host);
  return createTransport({
    pool: true,
    host,
    port,
    secure,
    ...(auth && { auth: { ...auth } }),
    requireTLS: mustEncrypt && !secure && !isLocal,
    ignoreTLS: isLocal && !secure,
    tls: { minVersion: 'TLSv1.2' },
    maxConnections: mailConnections,
    maxMessages,
    maxRequeues,
    idleTimeout: idleTimeoutMs,
    dnsTimeout: connectMs,
    connectionTimeout: connectMs,
    greetingTimeout: greetingMs,
    socketTimeout: socketMs,
    maxResponseSize: maxResponseBytes,
    // A mail is made of what is given and of nothing that its text may name.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}
