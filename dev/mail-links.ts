/** So many web addresses of a mail are links; what comes after stays text. */
const MAX_LINKS = 50;
/** Longer ones are cut: no link of a mail needs it. */
const WEB_ADDRESS = /https?:\/\/[^\s<>"'`]{1,2000}/g;
/** What ends a sentence or a bracket is not part of an address. */
const TRAILING = /[.,;:!?)\]}]+$/;

/** A piece of text; `url` where it is a web address. All pieces together are the text. */
export interface TextPiece {
  readonly text: string;
  readonly url?: string;
}

/** Cuts text at its web addresses. */
export function findLinks(text: string): TextPiece[] {
  const pieces: TextPiece[] = [];
  let end = 0;
  let links = 0;
  for (const { 0: found, index } of text.matchAll(WEB_ADDRESS)) {
    const url = found.replace(TRAILING, '');
    if (!URL.canParse(url)) continue;
    if (++links > MAX_LINKS) break;
    pieces.push({ text: text.slice(end, index) }, { text: url, url });
    end = index + url.length;
  }
  return [...pieces, { text: text.slice(end) }];
}
