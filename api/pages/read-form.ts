import { normaliseText, type TextFault } from '../../shared/domain/text.ts';
import { type FormFault, maxNoteLength } from './asking-page.ts';

/** What an approver answered. */
export interface FormAnswer {
  readonly decision: 'approved' | 'rejected';
  readonly note: string | null;
}

const faultSentences: Readonly<Record<TextFault, string>> = {
  unpaired_surrogate: 'The note holds characters that are broken. Type it again.',
  control_character: 'The note holds control characters, which nobody can see. Type it again instead of pasting it.',
  too_short: 'The note is too short.',
  too_long: `The note is too long. Shorten it to ${maxNoteLength} characters.`,
};

const notOurs: FormFault = {
  field: 'decision',
  message: 'What arrived is not the form of this page. Answer with the buttons below.',
  note: '',
};

/**
 * Reads the form of the page that asks. One meaning or none: a field given twice, one that the form does not have, and
 * bytes that are no UTF-8 are faults.
 * @param contentType header of the request
 * @param body as sent
 */
export function readForm({
  contentType,
  body,
}: {
  contentType: string | undefined;
  body: Uint8Array;
}): { readonly answer: FormAnswer } | { readonly fault: FormFault } {
  const fields = isForm(contentType) ? parseFields(body) : undefined;
  if (!fields) return { fault: notOurs };
  // Browsers send each newline as CR LF.
  const note = (fields.get('note') ?? '').replace(/\r\n?/g, '\n');
  const normal = normaliseText(note, { maxLength: maxNoteLength, multiline: true });
  if ('fault' in normal) return { fault: { field: 'note', message: faultSentences[normal.fault], note } };
  const decision = fields.get('decision');
  if (decision !== 'approved' && decision !== 'rejected')
    return { fault: { field: 'decision', message: 'Choose Approve or Reject.', note } };
  return { answer: { decision, note: normal.text.trim() === '' ? null : normal.text } };
}

function isForm(contentType = ''): boolean {
  const [type = '', ...parameters] = contentType.toLowerCase().split(';');
  const charset = parameters.map((each) => each.trim()).find((each) => each.startsWith('charset='));
  return (
    type.trim() === 'application/x-www-form-urlencoded' &&
    (charset === undefined || /^charset="?utf-8"?$/.test(charset))
  );
}

/** The fields, or undefined when there are others, or one twice, or what cannot be decoded. */
function parseFields(body: Uint8Array): Map<string, string> | undefined {
  const fields = new Map<string, string>();
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    for (const pair of text.split('&').filter((each) => each !== '')) {
      const [name = '', ...value] = pair.split('=');
      const field = decode(name);
      if (fields.has(field) || (field !== 'note' && field !== 'decision')) return undefined;
      fields.set(field, decode(value.join('=')));
    }
    return fields;
  } catch {
    return undefined;
  }
}

/** @throws URIError for broken percent-encoding, and for such that is no UTF-8 */
const decode = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '));
