/** So many bytes in a row are found wherever 2 n - 1 of them stand. */
const BLOCK_BYTES = 16;
/** Fewer different ones say nothing: zeros, small numbers. */
const DIFFERENT_MIN = 8;
const PREFIX_BITS = 24;

/** Runs of text that may be bytes written down, and where in such a run the bytes may begin. */
const FORMS: readonly { readonly run: RegExp; readonly starts: number; readonly decode: (run: string) => Buffer }[] = [
  { run: /[0-9a-fA-F]{32,}/g, starts: 2, decode: (run) => Buffer.from(run.slice(0, run.length & ~1), 'hex') },
  { run: /[A-Za-z0-9+/_-]{22,}/g, starts: 4, decode: (run) => Buffer.from(run, 'base64') },
  // JSON of a Buffer, `[1,2,…`, or of a Uint8Array, `"0":1,"1":2,…`
  {
    run: /(?:(?:"\d+":)?\d{1,3},\s*){15,}(?:"\d+":)?\d{1,3}/g,
    starts: 1,
    decode: (run) => Buffer.from(run.split(',').map((one) => Number(one.replace(/^.*:/, '')))),
  },
];

/** Finds parts of secret bytes in whatever may hold them. */
export interface SecretBytes {
  /**
   * @param what for the person who reads that they were found; the bytes are never shown
   * @param except bytes that may be known, and may stand in the secret ones
   */
  note(what: string, bytes: Uint8Array, except?: readonly Uint8Array[]): void;
  /**
   * What of all that is in there, by any 31 bytes in a row: as bytes, or written in hexadecimal, in base64 or base64url
   * from any place on, or as a list of numbers.
   */
  findIn(content: Uint8Array): string[];
}

export function createSecretBytes(): SecretBytes {
  const blocks = new Map<string, string>();
  const prefixes = new Uint8Array(2 ** (PREFIX_BITS - 3));
  const prefixAt = (bytes: Uint8Array, at: number) => bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16);

  function scan(bytes: Buffer, found: Set<string>): void {
    for (let at = 0; at + BLOCK_BYTES <= bytes.length; at += 1) {
      const prefix = prefixAt(bytes, at);
      if ((prefixes[prefix >> 3]! & (1 << (prefix & 7))) === 0) continue;
      const what = blocks.get(bytes.toString('latin1', at, at + BLOCK_BYTES));
      if (what !== undefined) found.add(what);
    }
  }
  return {
    note(what, bytes, except = []) {
      const secret = Buffer.from(bytes);
      const known = except.map((one) => Buffer.from(one));
      for (let at = 0; at + BLOCK_BYTES <= secret.length; at += BLOCK_BYTES) {
        const block = secret.subarray(at, at + BLOCK_BYTES);
        if (new Set(block).size < DIFFERENT_MIN || known.some((one) => one.includes(block))) continue;
        blocks.set(block.toString('latin1'), what);
        const prefix = prefixAt(block, 0);
        prefixes[prefix >> 3]! |= 1 << (prefix & 7);
      }
    },
    findIn(content) {
      const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
      const found = new Set<string>();
      scan(bytes, found);
      const text = bytes.toString('latin1');
      for (const { run, starts, decode } of FORMS)
        for (const [written] of text.matchAll(run))
          for (let start = 0; start < starts; start += 1) scan(decode(written.slice(start)), found);
      return [...found];
    },
  };
}
