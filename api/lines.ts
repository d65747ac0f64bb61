import { pipeline } from 'node:stream/promises';
import type { Response } from 'express';

/** How long a client may take none of an answer before its connection is cut. */
const longestStallMs = 30_000;

/** An answer of any length, made while it is sent: JSON values, one a line. */
export class Lines {
  readonly batches: AsyncIterable<readonly unknown[]>;
  /** @param batches of lines; the next one is asked for when the client has taken the one before */
  constructor(batches: AsyncIterable<readonly unknown[]>) {
    this.batches = batches;
  }
}

export const linesType = 'application/x-ndjson';

/**
 * Sends lines at the pace of the client, with one batch in memory. One who leaves, or who stops taking, ends it; a
 * failure on our side cuts the connection, so that what was sent does not pass for the whole.
 */
export async function sendLines(
  response: Response,
  { batches }: Lines,
  { stallMs = longestStallMs }: { stallMs?: number } = {},
): Promise<void> {
  response.setHeader('Content-Type', linesType);
  if (response.req.method === 'HEAD') {
    response.end();
    return;
  }
  response.setTimeout(stallMs, () => response.destroy());
  try {
    await pipeline(textOf(batches), response);
  } catch (error) {
    // That the client is gone, be it before the first line.
    if (!(error as { code?: string }).code?.startsWith('ERR_STREAM_')) throw error;
  }
}

async function* textOf(batches: AsyncIterable<readonly unknown[]>): AsyncGenerator<string> {
  for await (const batch of batches) yield batch.map((line) => `${JSON.stringify(line)}\n`).join('');
}
