import type { NodemailerError } from 'nodemailer';

/** Why a mail was not taken, in words that are safe to keep and to show. */
export interface MailFailure {
  readonly message: string;
  /** The same mail would be refused again. */
  readonly isPermanent: boolean;
}

const maxQuoteLength = 120;
/** Shortest piece of a secret that counts as a part of it. */
const minPieceLength = 8;

/** What the server was answering, by nodemailer's `command`. */
const steps: Readonly<Record<string, string>> = {
  CONN: 'the connection',
  EHLO: 'our greeting',
  STARTTLS: 'the wish for TLS',
  'MAIL FROM': 'the sender',
  'RCPT TO': 'the recipient',
  DATA: 'the mail',
};

/** How Node names what is wrong with a certificate or with TLS itself, e.g. `CERT_HAS_EXPIRED`. */
const certificateFault = /CERT|SIGNATURE|_SSL_|_TLS_/;

/** What happened where the server said nothing of it, by nodemailer's `code`. */
const faults: Readonly<Record<string, string>> = {
  EDNS: 'The name of the mail server cannot be resolved',
  ESOCKET: 'The mail server cannot be reached',
  ECONNECTION: 'The mail server closed the connection',
  ETIMEDOUT: 'The mail server did not answer in time',
  EABORT: 'The mail server did not take the mail in time',
  ETLS: 'There is no safe connection to the mail server',
  EAUTH: 'The mail server offers no way to sign in that works here',
  EPROTOCOL: 'The mail server does not speak SMTP as we do',
  EENVELOPE: 'The address cannot be used for mail',
  EMESSAGE: 'The mail is larger than the mail server takes',
};

/**
 * Reads an error of nodemailer. Its own message and `response` are not passed on: a server may repeat what it was sent, the
 * link among it, as filters do that name the address that they dislike.
 *
 * Permanent is what a repeat of this mail to this person cannot change: a 5xx (but 503, which is about the order of
 * commands) to the recipient or to the mail itself (RFC 5321, 4.2.1), and an address that cannot be one. Everything else
 * is repeated: 4xx and lost connections get better by themselves, and a refused sender, refused credentials or a wrong
 * certificate concern all mail, so that an operator puts them right, perhaps while this question is still open.
 */
export function readMailFailure(error: unknown, { secret }: { secret: string }): MailFailure {
  const { code = '', originalCode, command = '', responseCode, response = '', permanent } = error as NodemailerError;
  if (responseCode !== undefined) {
    const isAuth = command.startsWith('AUTH');
    const step = isAuth ? 'our credentials' : (steps[command] ?? 'a command');
    const enhanced = /^\d{3}[ -]([245]\.\d{1,3}\.\d{1,3})\b/.exec(response)?.[1];
    const status = enhanced === undefined ? responseCode : `${responseCode} ${enhanced}`;
    // To credentials it may answer with the password.
    const text = isAuth ? '' : quote(response, secret);
    return {
      message: `The mail server answered ${status} to ${step}${text === '' ? '.' : `: ${text}`}`,
      isPermanent: permanent === true && (command === 'RCPT TO' || command === 'DATA'),
    };
  }
  const detail = originalCode ?? code;
  const fault = faults[certificateFault.test(detail) ? 'ETLS' : code] ?? 'The mail could not be sent';
  return {
    message: /^[A-Z][A-Z_\d]{1,39}$/.test(detail) ? `${fault} (${detail}).` : `${fault}.`,
    isPermanent: code === 'EENVELOPE' || code === 'EMESSAGE',
  };
}

/** The plain words of a reply: no address, no number, nothing that a token or a piece of one could be. */
function quote(response: string, secret: string): string {
  const said = response.replaceAll(/^\d{3}[ -]?([245]\.\d{1,3}\.\d{1,3})?/gm, ' ');
  if (holdsPieceOf(secret, said)) return '';
  const words = said.split(/\s+/).filter((word) => /^\(?([A-Za-z]?[a-z]{1,14}|[A-Z]{2,10})\)?[.,:;!]?$/.test(word));
  const text = words.join(' ');
  return text.length > maxQuoteLength ? `${text.slice(0, maxQuoteLength).trimEnd()}…` : text;
}

/** Whether a text holds a part of the secret, also when its lines are folded or what is special is escaped (RFC 2045). */
function holdsPieceOf(secret: string, text: string): boolean {
  const bare = text.replaceAll(/=\r?\n|=[0-9A-F]{2}|[^A-Za-z0-9_-]/g, '');
  for (let start = 0; start + minPieceLength <= secret.length; start += 1)
    if (bare.includes(secret.slice(start, start + minPieceLength))) return true;
  return false;
}
