import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { ConfigError } from './read-env.ts';

/** Certificates (PEM) of authorities that are trusted at targets besides the usual ones. @throws ConfigError */
export function readTargetCa(path: string): string {
  const refused = (why: string) => new ConfigError([`PURSER_TARGET_CA_FILE: ${path} ${why}.`]);
  let content: string;
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    throw refused(`cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
  if (/PRIVATE KEY/.test(content)) throw refused('holds a private key; it must hold certificates only');
  try {
    for (const part of content.split(/(?<=-----END CERTIFICATE-----)\s*/)) if (part !== '') new X509Certificate(part);
  } catch {
    throw refused('holds something that is no certificate in PEM');
  }
  if (content.trim() === '') throw refused('holds no certificate');
  return content;
}
