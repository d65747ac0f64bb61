/** Encodings of encodings that are undone: what somebody wraps deeper than this is no link of ours that was bent on its way. */
const maxDecodings = 3;

/** What follows `approve` as a whole word: the token of a link. `…/approvals/ID/approve` has nothing after it. */
const linkToken = /([/\\]approve)(?![a-z]).+$/is;
/** Text as long as a token, wherever it stands: no id of ours is, so that a link that lost its beginning is hidden too. */
const longText = /[\w-]{40,}/g;

/**
 * The path of a request as a log may hold it: without query, and without the token of an approver's link, however it
 * is written: whoever reads the log could decide with it.
 */
export function loggedPath(url: string): string {
  const path = url.split(/[?#]/, 1)[0]!;
  const plain = decodeLoosely(path);
  const hidden = plain.replace(linkToken, '$1/…').replace(longText, '…');
  return hidden === plain ? path : hidden;
}

/** Undoes percent-encoding of ASCII; what is broken stays as it is. */
function decodeLoosely(path: string): string {
  let plain = path;
  for (let round = 0; round < maxDecodings; round += 1)
    plain = plain.replace(/%([0-7][0-9a-f])/gi, (_code, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return plain;
}
