/** What a mail says, in order; text and HTML are made of the same. */
export interface MailWords {
  readonly title: string;
  readonly amount: string;
  readonly facts: readonly { readonly label: string; readonly value: string; readonly isCode?: true }[];
  readonly link: { readonly words: string; readonly url: string };
  readonly notes: readonly string[];
}

const maxColumns = 72;
const labelColumns = 10;

/** The mail as plain text, in lines of at most 72 columns where words allow it. */
export function mailText({ title, amount, facts, link, notes }: MailWords): string {
  const rows = [{ label: 'Amount', value: amount }, ...facts].map(({ label, value }) =>
    wrap(value, { first: label.padEnd(labelColumns), next: ' '.repeat(labelColumns) }),
  );
  const paragraphs = [`${title}.`, rows.join('\n'), `${link.words}:`, link.url, ...notes];
  return `${paragraphs.map((paragraph) => (paragraph.includes('\n') ? paragraph : wrap(paragraph))).join('\n\n')}\n`;
}

/** Breaks at spaces only: what has none, such as the link, stays whole. */
export function wrap(text: string, { first = '', next = '' } = {}): string {
  const lines: string[] = [];
  let line = first;
  let isEmpty = true;
  for (const word of text.split(' ')) {
    if (!isEmpty && line.length + 1 + word.length > maxColumns) {
      lines.push(line);
      line = next;
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line].join('\n');
}
