import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ParsedMail, simpleParser } from 'mailparser';
import { findLinks } from './mail-links.ts';

/** Older mails make room. */
const KEPT_MAILS = 200;
/** The first header of each file; a mail that brings one of its own has it below ours. */
const RECIPIENT_HEADER = 'Delivered-To: ';

/** A mail as it is shown. Everything but `id` and `date` was written by its sender. */
export interface Mail {
  /** Time of arrival as in `20261128T070501123Z`, so that ids sort as mails came. */
  readonly id: string;
  /** To whom it was delivered, whatever its own headers say. */
  readonly to: string;
  readonly from: string;
  readonly subject: string;
  /** Of arrival. */
  readonly date: Date;
  /** The plain text part; empty when there is none. */
  readonly text: string;
  readonly html: string | undefined;
  /** Web addresses in the plain text part. */
  readonly links: readonly string[];
}

/** Mails as files `ID.eml` in a folder, which any mail program opens too. */
export interface MailStore {
  /** Keeps a mail; resolves when it is on the disk. @throws when it is no mail, or the disk is full */
  add(o: { recipients: readonly string[]; source: Buffer }): Promise<void>;
  /** All of them, the newest first. */
  list(): Promise<Mail[]>;
  get(id: string): Promise<Mail | undefined>;
}

/** Opens the folder, or makes it. Links in mails are secrets, so that nobody else may read it. */
export function openMailStore({ dir }: { dir: string }): MailStore {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const ids = () =>
    readdirSync(dir)
      .flatMap((name) => /^(\d{8}T\d{9}Z)\.eml$/.exec(name)?.[1] ?? [])
      .sort()
      .reverse();
  const file = (id: string) => join(dir, `${id}.eml`);
  const [newest] = ids();
  let lastMs = newest === undefined ? 0 : timeOf(newest).getTime();

  async function read(id: string): Promise<Mail | undefined> {
    try {
      return shown({ id, parsed: await parse(await readFile(file(id))) });
    } catch (error) {
      // It has made room for a newer one in this moment.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  }

  return {
    async add({ recipients, source }) {
      const whole = Buffer.concat([Buffer.from(`${RECIPIENT_HEADER}${recipients.join(', ')}\r\n`), source]);
      // What cannot be shown is refused while its sender still listens.
      await parse(whole);
      // Two of one millisecond, and clocks that are set back, still sort as they came.
      lastMs = Math.max(Date.now(), lastMs + 1);
      const incoming = join(dir, 'incoming');
      writeFileSync(incoming, whole, { mode: 0o600 });
      renameSync(incoming, file(idOf(lastMs)));
      for (const id of ids().slice(KEPT_MAILS)) rmSync(file(id), { force: true });
    },
    async list() {
      const mails = await Promise.all(ids().map(read));
      return mails.filter((mail) => mail !== undefined);
    },
    get: async (id) => (ids().includes(id) ? await read(id) : undefined),
  };
}

const idOf = (ms: number) => new Date(ms).toISOString().replaceAll(/[-:.]/g, '');
const timeOf = (id: string) =>
  new Date(id.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z$/, '$1-$2-$3T$4:$5:$6.$7Z'));

/** Nothing is made of the HTML part but itself: text that is made from hostile HTML is one more thing to trust. */
function parse(source: Buffer): Promise<ParsedMail> {
  return simpleParser(source, { skipHtmlToText: true, skipTextToHtml: true });
}

function shown({ id, parsed }: { id: string; parsed: ParsedMail }): Mail {
  const [first] = parsed.headerLines;
  const text = parsed.text?.trimEnd() ?? '';
  return {
    id,
    to: first?.line.startsWith(RECIPIENT_HEADER) ? first.line.slice(RECIPIENT_HEADER.length) : '',
    from: parsed.from?.text ?? '',
    subject: parsed.subject ?? '',
    date: timeOf(id),
    text,
    html: parsed.html === false ? undefined : parsed.html,
    links: findLinks(text).flatMap(({ url }) => url ?? []),
  };
}
