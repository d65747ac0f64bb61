// Checks an export of the audit log (GET /api/v1/audit-logs/export) offline, as a function and as a command:
//   node sdk/verify-audit-export.ts FILE [--head-seq N --head-hash H] [--checkpoint-seq N --checkpoint-hash H]
import { createReadStream, realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type ChainFault, type ChainPlace, type ChainReport, chainStart, verifyChain } from '../shared/audit-chain.ts';
import { fail, printResult, readArguments, usageStatus } from '../shared/command-line.ts';
import { tellProgress } from '../shared/tell-progress.ts';

const USAGE = `Usage: node sdk/verify-audit-export.ts FILE [options]

  FILE                an export of the audit log, or - for standard input
  --head-seq N        a head that was noted before (GET /api/v1/audit-logs/head): the chain has to go through it
  --head-hash H
  --checkpoint-seq N  the entry before the first one in the file, where that is not number 1: the checkpoint that
  --checkpoint-hash H   GET /api/v1/audit-logs/verify shows, or the last entry of an earlier export
  --json              prints the result as one JSON value, and a failure as {"error":{"code","message"}}
  --help              this text

  How far it is stands on the error output. Exit code 0: every entry is as it was written. 1: it is not. 2: it could not be checked.
`;

/** What was found; see `ChainReport`. */
export interface ExportReport extends ChainReport {
  /** Line of the file at which the chain is broken, from 1; null if none. */
  readonly line: number | null;
}

/** What is known of the chain beforehand. */
export interface VerifyOptions {
  /** The entry before the first one; nothing if that is number 1. */
  readonly checkpoint?: ChainPlace;
  /** An entry that the chain has to go through. Without one, an end that was cut off cannot be seen. */
  readonly head?: ChainPlace | undefined;
  /** Hears of each entry that is read, by how many there were. */
  readonly onEntry?: (count: number) => void;
}

/**
 * Follows the chain in an export to its first broken place. Holds one line at a time.
 * @param chunks the text of the export, in pieces of any length, such as a stream with `setEncoding('utf8')`
 */
export async function verifyAuditExport(
  chunks: AsyncIterable<string> | Iterable<string>,
  { checkpoint = chainStart, head, onEntry }: VerifyOptions = {},
): Promise<ExportReport> {
  const entries = counted(entriesOf(chunks), onEntry);
  const report = await verifyChain(entries, { start: checkpoint, heads: head ? [head] : [] });
  return { ...report, line: report.valid ? null : report.checked + 1 };
}

async function* counted(
  entries: AsyncIterable<unknown>,
  onEntry: (count: number) => void = () => {},
): AsyncGenerator<unknown> {
  let count = 0;
  for await (const entry of entries) {
    count += 1;
    onEntry(count);
    yield entry;
  }
}

/** Each line as JSON; what is none is no entry. Empty lines at the end say nothing: files are saved with some. */
async function* entriesOf(chunks: AsyncIterable<string> | Iterable<string>): AsyncGenerator<unknown> {
  let isEntryMissing = false;
  for await (const line of linesOf(chunks)) {
    if (line.trim() === '') {
      isEntryMissing = true;
      continue;
    }
    if (isEntryMissing) yield undefined;
    isEntryMissing = false;
    let entry: unknown;
    try {
      entry = JSON.parse(line);
    } catch {}
    yield entry;
  }
}

/** Split at line feeds only: other ends of lines (U+2028) may stand in a JSON string as they are. */
async function* linesOf(chunks: AsyncIterable<string> | Iterable<string>): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest !== '') yield rest;
}

const sentences: Readonly<Record<ChainFault, string>> = {
  changed: 'it does not have the hash that it says, or is no whole entry',
  missing: 'there is no entry with this number, and there are later ones',
  inserted: 'there is more than one entry with this number',
  out_of_order: 'it stands after later ones',
  wrong_start: 'the first entry does not go on from the start; is the checkpoint missing, or another one?',
  unlinked: 'it says that another entry was before it: one of the two was written anew',
  rewritten: 'it is not the one that was noted: the chain was written anew',
  cut_off: 'the export ends before the head that was noted',
};

/** Something that the command was told cannot be right. */
class UsageError extends Error {
  override name = 'UsageError';
}

async function main(): Promise<void> {
  const { values, positionals } = readArguments(USAGE, {
    allowPositionals: true,
    options: { 'head-seq': text, 'head-hash': text, 'checkpoint-seq': text, 'checkpoint-hash': text },
  });
  const [file] = positionals;
  if (file === undefined || positionals.length > 1) throw new UsageError('Name one file.');
  const head = placeOf(values, 'head');
  const checkpoint = placeOf(values, 'checkpoint') ?? chainStart;
  if (head && head.seq < checkpoint.seq)
    throw new UsageError('The head is older than the checkpoint: it cannot be compared with anything.');
  const stream = file === '-' ? process.stdin : createReadStream(file);
  const progress = tellProgress();
  const onEntry = (count: number) => progress.tell(`${count} entries`);
  const report = await verifyAuditExport(stream.setEncoding('utf8'), { checkpoint, head, onEntry });
  progress.end();
  printResult(report, { json: values.json, show: (result) => describe(result, { hasHead: head !== undefined }) });
  if (!report.valid) process.exitCode = 1;
}

function describe({ valid, checked, last, line, brokenAt, reason }: ExportReport, { hasHead }: { hasHead: boolean }) {
  if (!valid)
    return `BROKEN at entry ${brokenAt} (line ${line}): ${reason}: ${sentences[reason!]}.\n${checked} entries before it are whole.`;
  const whole = `Valid: ${checked} entries, to number ${last.seq} with hash ${last.hash}.`;
  return hasHead ? whole : `${whole}\nAn end that was cut off cannot be seen without --head-seq and --head-hash.`;
}

const text = { type: 'string' } as const;

function placeOf(
  values: Readonly<Record<string, string | boolean | undefined>>,
  name: 'head' | 'checkpoint',
): ChainPlace | undefined {
  const [seq, hash] = [values[`${name}-seq`], values[`${name}-hash`]];
  if (seq === undefined && hash === undefined) return undefined;
  if (!/^(0|[1-9]\d{0,15})$/.test(String(seq))) throw new UsageError(`--${name}-seq must be the number of an entry.`);
  if (!/^[0-9a-f]{64}$/.test(String(hash)))
    throw new UsageError(`--${name}-hash must be 64 hexadecimal digits in lower case.`);
  return { seq: Number(seq), hash: String(hash) };
}

/** Whether this file is the program, and not something that a program imports. */
const isProgram = process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url);
if (isProgram)
  main().catch((error: Error) => {
    const isUsage = error instanceof UsageError;
    // Nothing is said of the export: that is neither whole nor broken.
    const text = isUsage ? `${error.message}\n\n${USAGE}` : error.message;
    fail(text, { status: usageStatus, code: isUsage ? 'usage' : 'failed', summary: error.message });
  });
