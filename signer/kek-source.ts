import { readFileSync } from 'node:fs';
import { isDevelopmentSecret } from '../shared/domain/development-mark.ts';
import { createKek, KEK_BYTES, type Kek } from './kek.ts';

/** More than a few mean that the old ones are forgotten there. */
export const KEKS_MAX = 16;

/** Where a signer has its key-encryption keys from. A KMS is one more of these. */
export interface KekSource {
  /** What an operator knows it by: a variable, and its file where there is one. */
  readonly name: string;
  /**
   * The current key first, those before it after it. Asked again and again while the signer runs, so that a new key is
   * taken up without a restart.
   * @throws Error of one sentence, without the value
   */
  read(): Promise<readonly Kek[]>;
}

/** A file: one key of 32 bytes in base64 a line, the newest first; behind a key may stand that it is for trying out. */
export function fileKekSource(p: { file: string; isProduction: boolean }): KekSource {
  const name = `PURSER_SIGNER_KEK_FILE ${p.file}`;
  return {
    name,
    async read() {
      const text = readKekFile(p.file);
      if (p.isProduction && isDevelopmentSecret(text)) throw new Error(`${name}: ${DEVELOPMENT_KEK}`);
      return parseKeks({ name: 'PURSER_SIGNER_KEK_FILE', text });
    },
  };
}

const DEVELOPMENT_KEK = 'made by npm start for trying out, and refused in production';

/** Two variables: the current key, and those before it, separated by commas. They change with a restart only. */
export function environmentKekSource(p: { current: string; previous: string | undefined }): KekSource {
  const keks = [
    ...parseKeks({ name: 'PURSER_SIGNER_KEK', text: p.current.trim() }),
    ...(p.previous === undefined
      ? []
      : parseKeks({ name: 'PURSER_SIGNER_KEK_PREVIOUS', text: p.previous.replaceAll(',', '\n') })),
  ];
  return { name: 'PURSER_SIGNER_KEK', read: async () => keks };
}

/** @throws Error with the name of the file and why it cannot be read */
export function readKekFile(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : cause;
    throw new Error(`PURSER_SIGNER_KEK_FILE ${file} cannot be read (${code})`, { cause });
  }
}

/** @throws Error of one sentence that names where the keys are from and what they should be */
export function parseKeks({ name, text }: { name: string; text: string }): Kek[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  if (lines.length > KEKS_MAX) {
    throw new Error(`${name} holds ${lines.length} keys; take out those that nothing is sealed under any more`);
  }
  const keks = (lines.length === 0 ? [''] : lines).map((line) => {
    const bytes = Buffer.from(line.trim().split(/\s/, 1)[0]!, 'base64');
    if (bytes.length === KEK_BYTES) return createKek(bytes);
    throw new Error(
      `${name} must hold ${KEK_BYTES} bytes in base64, as signer/init.ts writes them; it holds ${bytes.length}`,
    );
  });
  if (new Set(keks.map(({ id }) => id)).size < keks.length) throw new Error(`${name} holds a key twice`);
  return keks;
}
