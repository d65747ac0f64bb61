import { z } from 'zod';

// The request with which a target is asked what it wants, as its client is going to repeat it with the payment.

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
const maxHeaders = 32;
/** Names and values together. */
const maxHeaderBytes = 8 * 1024;
const maxBodyBytes = 64 * 1024;

/** A token of RFC 9110, 5.6.2. */
const namePattern = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
/** Visible ASCII, with spaces and tabs inside (RFC 9110, 5.5). */
const valuePattern = /^(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?$/;

/** Those of the connection, which is ours; and those that pay, which would be given to whoever is asked first. */
const ownHeaders = new Set([
  'accept-encoding',
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'payment-signature',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-payment',
]);

export const requestMethod = z
  .enum(methods)
  .nullish()
  .transform((method) => method ?? 'GET')
  .meta({ description: 'With which the target is asked. Default: `GET`.', example: 'GET' });

export const requestHeaders = z
  .record(z.string(), z.string())
  .superRefine((headers, context) => {
    const entries = Object.entries(headers);
    const refuse = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    for (const [name, value] of entries) {
      if (!namePattern.test(name)) refuse([name], 'is no name of a header.');
      else if (ownHeaders.has(name.toLowerCase())) refuse([name], 'is set by the service itself. Leave it out.');
      else if (!valuePattern.test(value)) refuse([name], 'must be visible ASCII characters, with spaces inside only.');
    }
    const names = new Set(entries.map(([name]) => name.toLowerCase()));
    if (names.size < entries.length) refuse([], 'must name each header once; case does not count.');
    if (entries.length > maxHeaders) refuse([], `must have at most ${maxHeaders} entries.`);
    const bytes = entries.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
    if (bytes > maxHeaderBytes) refuse([], `must have at most ${maxHeaderBytes} bytes in all.`);
  })
  .meta({
    description: `Headers with which the target is asked, where it needs them to know what it wants; at most ${maxHeaders} and ${maxHeaderBytes} bytes.`,
    example: { Accept: 'application/json' },
  });

export const requestBody = z
  .string()
  .refine((body) => body.isWellFormed(), { error: 'must be well-formed Unicode, without unpaired surrogates.' })
  .refine((body) => Buffer.byteLength(body) <= maxBodyBytes, { error: `must have at most ${maxBodyBytes} bytes.` })
  .meta({
    description: `Body with which the target is asked, sent as it is in UTF-8; at most ${maxBodyBytes} bytes. Name its type in \`headers\`.`,
    example: '{"city":"Oslo"}',
  });
