import type { Request, Response } from 'express';
import { createScanner } from 'jsonc-parser';
import { PurserError } from '../shared/errors.ts';
import { createReadBytes } from './read-bytes.ts';

/** Largest body that is read, in bytes as sent. */
const maxBodyBytes = 256 * 1024;
/** Deepest nesting of objects and arrays; requests of ours need three. */
const maxDepth = 32;

const readBytes = createReadBytes({ maxBytes: maxBodyBytes });

/**
 * Reads a request's body as JSON, strictly: one meaning for every reader, or 400.
 * @param isOptional whether no body is an empty object
 * @throws PurserError 400 for a wrong content type, size, encoding or syntax, and for a member given twice with different values
 */
export async function readJson(
  request: Request,
  response: Response,
  { isOptional = false }: { isOptional?: boolean } = {},
): Promise<unknown> {
  const bytes = await readBytes(request, response);
  if (bytes.length === 0 && isOptional) return {};
  if (bytes.length === 0) throw refused('The body is empty. Send a JSON object.');
  // Answered only now: a refusal must not leave unread bytes on a connection that is kept.
  requireJsonType(request);
  return parseStrict(decode(bytes));
}

function requireJsonType(request: Request): void {
  const [type = '', ...parameters] = (request.get('content-type') ?? '').toLowerCase().split(';');
  const charset = parameters.map((each) => each.trim()).find((each) => each.startsWith('charset='));
  if (type.trim() !== 'application/json' || (charset !== undefined && !/^charset="?utf-8"?$/.test(charset)))
    throw refused('The Content-Type must be application/json, in UTF-8.');
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw refused('The body is not valid UTF-8.', error);
  }
}

function parseStrict(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw refused('The body is not valid JSON.', error);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw refused('The body must be a JSON object.');
  refuseAmbiguity(text);
  return value;
}

interface Level {
  /** Source text of each member so far; undefined inside an array. */
  readonly members: Map<string, string> | undefined;
  name: string | undefined;
  valueStart: number;
}

/**
 * Refuses what two JSON readers may read differently: a member given twice with different values.
 * `text` is valid JSON already; the scanner only shows its tokens, without recursion.
 */
function refuseAmbiguity(text: string): void {
  const scanner = createScanner(text, true);
  const levels: Level[] = [];
  for (scanner.scan(); scanner.getTokenOffset() < text.length; scanner.scan()) {
    const level = levels.at(-1);
    const offset = scanner.getTokenOffset();
    const first = text[offset];
    switch (first) {
      case '{':
      case '[':
        if (levels.length === maxDepth) throw refused(`The body is nested deeper than ${maxDepth} levels.`);
        levels.push({ members: first === '{' ? new Map() : undefined, name: undefined, valueStart: 0 });
        break;
      case '"':
        if (level?.members && level.name === undefined)
          level.name = JSON.parse(text.slice(offset, offset + scanner.getTokenLength())) as string;
        break;
      case ':':
        level!.valueStart = offset + 1;
        break;
      case ',':
        closeMember(level!, text, offset);
        break;
      case '}':
      case ']':
        closeMember(level!, text, offset);
        levels.pop();
        break;
    }
  }
}

function closeMember(level: Level, text: string, end: number): void {
  if (!level.members || level.name === undefined) return;
  const source = text.slice(level.valueStart, end).trim();
  const before = level.members.get(level.name);
  if (before !== undefined && before !== source)
    throw refused(`The body gives ${JSON.stringify(level.name)} twice, with different values.`);
  level.members.set(level.name, source);
  level.name = undefined;
}

function refused(message: string, cause?: unknown): PurserError {
  return new PurserError('invalid_request', message, { cause });
}
