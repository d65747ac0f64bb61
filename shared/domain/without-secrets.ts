const censor = '[redacted]';

/** Of our own making: keys, refresh tokens, exchange codes. The masked form that lists show is shorter. */
const ownSecret = /\bpurser_(test|live|refresh|code)_[\w-]{16,}/g;
/** Tokens and sealed texts: compact JWS and JWE (RFC 7515, 7516). */
const compactJose = /\beyJ[\w-]{8,}(?:\.[\w-]*){2,4}/g;
/** Secrets of webhooks (Standard Webhooks). */
const webhookSecret = /\bwhsec_[\w+/=-]+/g;
const credentials = /\b(bearer|basic)(\s+|%20|\+)[\w.~+/-]{8,}=*/gi;
/** 32 bytes in base64url: tokens of links, private members of keys. */
const thirtyTwoBytes = /(?<![\w-])[\w-]{43}(?![\w-])/g;
/** 32 bytes in base64, as key-encryption keys are written. */
const thirtyTwoBytesPadded = /(?<![\w+/-])[A-Za-z0-9+/]{43}=(?![\w=])/g;
/** Scheme, whatever stands before the host, host and port, and the rest. */
const webAddress = /\b([a-z][a-z0-9+.-]{1,20}:\/\/)(?:[^\s"'`<>\\]*@)?([^\s"'`<>\\/?#@]*)([/?#][^\s"'`<>\\]*)?/gi;

/**
 * A text for people who may not hold secrets: without those of our own making, without tokens, and with no more of a web
 * address than its origin. Passwords stand in addresses of databases and mail servers, keys in paths of RPC endpoints and
 * of webhooks. What somebody else's secret looks like nobody can tell, so this is the second line of defence: the first one
 * is not to write them.
 */
export function withoutSecrets(text: string): string {
  return text
    .replace(ownSecret, (_, kind: string) => `purser_${kind}_${censor}`)
    .replace(compactJose, censor)
    .replace(webhookSecret, `whsec_${censor}`)
    .replace(credentials, (_, scheme: string, space: string) => `${scheme}${space}${censor}`)
    .replace(
      webAddress,
      (_, scheme: string, host: string, rest = '') => scheme + host + (rest.length > 1 ? '/…' : rest),
    )
    .replace(thirtyTwoBytesPadded, censor)
    .replace(thirtyTwoBytes, censor);
}
