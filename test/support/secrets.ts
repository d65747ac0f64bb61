import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createSecretBytes } from './secret-bytes.ts';

/** Shorter texts may stand somewhere by chance. */
const minLength = 12;
/** Members of requests and answers that hold a secret. */
const secretMembers = new Set(['key', 'secret', 'access_token', 'refresh_token', 'client_secret', 'd', 'k']);
/** Errors have a `code` as well. */
const exchangeCode = /^purser_code_/;

/** What must not be in any log, with what it is. Of one test process, so of the installations that it runs. */
const secrets = new Map<string, string>();
const secretBytes = createSecretBytes();

/** Remembers a secret. @param what for the person who reads that it was found; the secret itself is never shown */
export function noteSecret(what: string, value: string): void {
  if (value.length >= minLength) secrets.set(value, what);
}

/** Remembers secret bytes, of which no part may stand anywhere. @param except what may be known of them */
export function noteSecretBytes(what: string, bytes: Uint8Array, except?: readonly Uint8Array[]): void {
  secretBytes.note(what, bytes, except);
}

/** Remembers the password in a URL. */
export function notePassword(what: string, url: string): void {
  const { password } = new URL(url);
  noteSecret(what, password);
  noteSecret(what, decodeURIComponent(password));
}

/** Remembers what is secret in a request, an answer, or a file of keys: by the names of members. */
export function noteSecretsIn(what: string, content: unknown): void {
  JSON.stringify(content, (name, value: unknown) => {
    if (typeof value === 'string' && (secretMembers.has(name) || exchangeCode.test(value)))
      noteSecret(`${name} of ${what}`, value);
    return value;
  });
}

/** Remembers what is secret in a file that holds keys, as JSON or as text, a key a line: as text, and as bytes. */
export function noteSecretFile(path: string): void {
  const text = readFileSync(path, 'utf8');
  if (text.startsWith('{')) {
    noteSecretsIn(path, JSON.parse(text));
    for (const [, name, value] of text.matchAll(/"(d|k)"\s*:\s*"([\w-]+)"/g))
      noteSecretBytes(`${name} of ${path}`, Buffer.from(value!, 'base64url'));
    return;
  }
  for (const [, value] of text.matchAll(/^\s*([^#\s]\S*)/gm)) {
    noteSecret(path, value!);
    if (!value!.startsWith('AGE-')) noteSecretBytes(path, Buffer.from(value!, 'base64'));
  }
}

/** What of all that is in a text, in one form or another. */
export function secretsIn(text: string): string[] {
  return [...secrets].filter(([value]) => formsOf(value).some((form) => text.includes(form))).map(([, what]) => what);
}

/** Looks through files and folders of files. @throws Error naming each file that holds a secret, and what it is */
export function refuseSecretsIn(paths: readonly string[]): void {
  const found = paths.flatMap(filesIn).flatMap((file) => {
    const content = readFileSync(file);
    const what = [...secretsIn(content.toString('latin1')), ...secretBytes.findIn(content)];
    return what.map((one) => `${file} holds ${one}`);
  });
  if (found.length > 0) throw new Error(`Secrets are where they must not be:\n  ${[...new Set(found)].join('\n  ')}`);
}

function filesIn(path: string): string[] {
  return statSync(path).isDirectory() ? readdirSync(path).flatMap((name) => filesIn(join(path, name))) : [path];
}

function formsOf(value: string): string[] {
  return [
    value,
    encodeURIComponent(value),
    JSON.stringify(value).slice(1, -1),
    Buffer.from(value).toString('base64').replace(/=+$/, '').slice(0, -2),
  ];
}
