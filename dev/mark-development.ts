import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { developmentMark, isDevelopmentSecret } from '../shared/domain/development-mark.ts';

/**
 * Marks the secret in a file as made for trying out, so that production refuses it, wherever it is copied to. Files of
 * earlier versions are marked as well; one that is marked is left as it is. As a whole or not at all, as whoever made it.
 */
export function markDevelopment(file: string): void {
  const text = readFileSync(file, 'utf8');
  const isMarked = isDevelopmentSecret(text);
  if (isMarked && !hasUnmarkedKey(text)) return;
  writeFileSync(`${file}.new`, marked(text), { mode: statSync(file).mode & 0o777, flush: true });
  renameSync(`${file}.new`, file);
}

interface Content {
  keys?: Record<string, unknown>[];
}

/** Each key of a set has the mark: others may be taken out of the file, or be put beside it. */
function marked(text: string): string {
  if (!text.startsWith('{')) return `${text.trim()} ${developmentMark}\n`;
  const content = JSON.parse(text) as Content;
  const mark = { [developmentMark]: true };
  const result = content.keys
    ? { ...content, keys: content.keys.map((key) => ({ ...key, ...mark })) }
    : { ...content, ...mark };
  return `${JSON.stringify(result, null, 2)}\n`;
}

function hasUnmarkedKey(text: string): boolean {
  if (!text.startsWith('{')) return false;
  const { keys = [] } = JSON.parse(text) as Content;
  return keys.some((key) => key[developmentMark] !== true);
}
