import { timeInWords } from '../../shared/domain/time-in-words.ts';
import { type Html, html } from './html.ts';

/**
 * An address in groups of four, which the eye can follow and a copy does not contain. All groups look alike: somebody
 * who passes off an address as another one makes the first and the last of them agree.
 */
export function writeAddress(address: string): Html {
  const groups = address.match(/^0x|.{1,4}/gs) ?? [];
  return html`<span class="address">${groups.map((group) => html`<span>${group}</span><wbr>`)}</span>`;
}

/** An instant in words, and for programs. */
export function writeTime(instant: Date): Html {
  return html`<time datetime="${instant.toISOString()}">${timeInWords(instant)}</time>`;
}

/** Text of somebody else, kept from turning round what stands beside it. */
export function writeText(text: string): Html {
  return html`<bdi>${text}</bdi>`;
}

/** An e-mail address, which breaks at its parts where a line is too short for it. */
export function writeEmail(email: string): Html {
  return html`<bdi>${email.split(/(?<=[@.])/).map((part) => html`${part}<wbr>`)}</bdi>`;
}
