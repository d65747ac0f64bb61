/** How the characters after `whsec_` are read: as base64, or as they are. */
export type SecretFormat = 'base64' | 'utf8';

/** The key that signs, or what is wrong with the secret, as the rest of a sentence that begins with its name. */
export type ReadSecret = { readonly format: SecretFormat; readonly key: Uint8Array } | { readonly fault: string };

const prefix = 'whsec_';
/** Of a key in base64, as Standard Webhooks 1.0 wants it; in bytes. */
const minKeyBytes = 24;
const maxKeyBytes = 64;
/** Of a secret that is taken as it is, without the prefix; in bytes. */
const minTextBytes = 16;
/** In code points, with the prefix. */
export const maxSecretLength = 256;

/**
 * Reads the secret that signs what a webhook is sent. Text that happens to be canonical base64 of 24 to 64 bytes counts as
 * base64, as in every library of Standard Webhooks; anything else is its own bytes. The sentences never repeat it.
 */
export function readWebhookSecret(text: string): ReadSecret {
  if (!text.isWellFormed()) return { fault: 'must be well-formed Unicode, without unpaired surrogates.' };
  if (!text.startsWith(prefix))
    return { fault: `must begin with ${prefix}, followed by base64 of ${minKeyBytes} to ${maxKeyBytes} random bytes.` };
  if ([...text].length > maxSecretLength) return { fault: `must have at most ${maxSecretLength} characters.` };
  const rest = text.slice(prefix.length);
  if (/[\p{Cc}\u2028\u2029]|^\s|\s$/u.test(rest))
    return {
      fault: 'must not contain control characters, nor spaces at its ends: it may have been copied with a line end.',
    };
  const decoded = Buffer.from(rest, 'base64');
  const isCanonical = decoded.toString('base64') === rest;
  if (isCanonical && decoded.length >= minKeyBytes && decoded.length <= maxKeyBytes)
    return { format: 'base64', key: new Uint8Array(decoded) };
  const key = new TextEncoder().encode(rest);
  if (key.length < minTextBytes)
    return {
      fault: `must have at least ${minTextBytes} bytes after ${prefix}; best is base64 of ${minKeyBytes} to ${maxKeyBytes} random bytes, as \`openssl rand -base64 32\` makes.`,
    };
  return { format: 'utf8', key };
}
