import { escapeHtml } from '../../shared/domain/escape-html.ts';

/** Markup that goes into a page as it is. `html` makes it; to make one by hand is to vouch for every byte. */
export class Html {
  readonly markup: string;
  constructor(markup: string) {
    this.markup = markup;
  }
}

/** What a template takes: text is escaped, markup is not, `undefined` and `false` leave nothing. */
export type Fragment = Html | string | number | undefined | false | readonly Fragment[];

/**
 * Builds markup. Every value is escaped unless it was built by this function itself, so that text of people and agents
 * stays text, between tags as well as in attributes. Attributes with values are always written in double quotes.
 */
export function html(parts: TemplateStringsArray, ...values: readonly Fragment[]): Html {
  return new Html(parts.reduce((built, part, index) => built + write(values[index - 1]) + part));
}

function write(value: Fragment): string {
  if (value === undefined || value === false) return '';
  if (value instanceof Html) return value.markup;
  if (typeof value === 'object') return value.map(write).join('');
  return escapeHtml(String(value));
}
