import { z } from 'zod';

/** The server that takes our mail. */
export interface SmtpServer {
  readonly host: string;
  readonly port: number;
  /** TLS from the first byte (`smtps:`); else STARTTLS, where the server has it. */
  readonly secure: boolean;
  readonly auth: { readonly user: string; readonly pass: string } | undefined;
}

/** A person or service as the sender of mail. */
export interface MailAddress {
  readonly name: string;
  readonly address: string;
}

/** Ports for submission: RFC 8314 for TLS from the first byte, RFC 6409 for STARTTLS. */
const defaultPorts = { 'smtps:': 465, 'smtp:': 587 } as const;

/**
 * `smtps://user:password@host:port`. Options in its query are refused: they could turn off the check of certificates.
 * The messages never repeat the text: a password stands in it.
 */
export const smtpServer = z.string().transform((text, context): SmtpServer => {
  const wrong = (message: string) => {
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  };
  const url = URL.parse(text);
  if (!url || (url.protocol !== 'smtp:' && url.protocol !== 'smtps:') || url.hostname === '')
    return wrong('is not like smtps://user:password@mail.example.com:465');
  if (!/^\/?$/.test(url.pathname) || url.search !== '' || url.hash !== '')
    return wrong('has something behind the port; nothing may stand there');
  if ((url.username === '') !== (url.password === '')) return wrong('has a user or a password, but not both');
  try {
    const [user, pass] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
    return {
      host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: url.port === '' ? defaultPorts[url.protocol] : Number(url.port),
      secure: url.protocol === 'smtps:',
      auth: user === '' ? undefined : { user, pass },
    };
  } catch {
    return wrong('has a % in user or password that is not written as %25');
  }
});

/** `Purser <purser@example.com>`, or the address alone. */
export const mailAddress = z.string().transform((text, context): MailAddress => {
  const [, name = '', bracketed] = /^\s*"?([^"<>]*?)"?\s*<([^<>]*)>\s*$/.exec(text) ?? [];
  const address = bracketed ?? text.trim();
  if (z.regexes.email.test(address) && !/\p{Cc}/u.test(name)) return { name, address };
  context.addIssue({ code: 'custom', message: 'is not like Purser <purser@example.com>' });
  return z.NEVER;
});

/** Where people reach the api; without the slash at its end, so that paths can be put behind it. */
export const publicUrl = z.string().transform((text, context): string => {
  const url = URL.parse(text);
  const isPlain = url && url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (isPlain && (url.protocol === 'https:' || url.protocol === 'http:')) return url.href.replace(/\/+$/, '');
  context.addIssue({ code: 'custom', message: 'is not like https://purser.example.com' });
  return z.NEVER;
});
