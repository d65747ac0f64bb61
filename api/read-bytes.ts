import type { Request, Response } from 'express';
import { PurserError } from '../shared/errors.ts';

/**
 * Makes what reads a whole body, bounded. Compressed bodies are refused: nothing of ours is large, and a small one can
 * grow without bound.
 * @param maxBytes as sent
 * @returns reads a body; throws PurserError 400 when it is too large, compressed or broken off. What is too large is not
 *   read to its end: its answer is the last one on the connection
 */
export function createReadBytes({ maxBytes }: { maxBytes: number }) {
  return async function readBytes(request: Request, response: Response): Promise<Buffer> {
    const tooLarge = () => {
      response.setHeader('Connection', 'close');
      return refused(`The body is larger than ${maxBytes} bytes.`);
    };
    const encoding = request.get('content-encoding')?.toLowerCase() ?? 'identity';
    if (encoding !== 'identity') throw refused('Send the body without Content-Encoding.');
    if (Number(request.get('content-length') ?? 0) > maxBytes) throw tooLarge();
    if (request.destroyed) throw brokenOff();
    return new Promise((resolve, reject) => {
      const parts: Buffer[] = [];
      let size = 0;
      const take = (part: Buffer) => {
        size += part.length;
        if (size <= maxBytes) parts.push(part);
        else fail(tooLarge());
      };
      const leave = () => request.off('data', take).off('end', end).off('error', broken).off('close', broken);
      const fail = (error: PurserError) => {
        leave();
        request.pause();
        reject(error);
      };
      const broken = (cause?: unknown) => fail(brokenOff(cause));
      const end = () => {
        leave();
        resolve(Buffer.concat(parts));
      };
      request.on('data', take).once('end', end).once('error', broken).once('close', broken);
    });
  };
}

const brokenOff = (cause?: unknown) => refused('The body could not be read to its end.', cause);

function refused(message: string, cause?: unknown): PurserError {
  return new PurserError('invalid_request', message, { cause });
}
