import { type Request, type Response, raw } from 'express';
import { PurserError } from '../shared/errors.ts';

/**
 * Makes what reads a whole body, bounded. Compressed bodies are refused: nothing of ours is large, and a small one can
 * grow without bound.
 * @param maxBytes as sent
 * @returns reads a body; throws PurserError 400 when it is too large, compressed or broken off
 */
export function createReadBytes({ maxBytes }: { maxBytes: number }) {
  const readRaw = raw({ type: () => true, limit: maxBytes, inflate: false });
  return async function readBytes(request: Request, response: Response): Promise<Buffer> {
    try {
      await new Promise<void>((resolve, reject) => {
        readRaw(request, response, (error?: unknown) => (error === undefined ? resolve() : reject(error)));
      });
    } catch (error) {
      const { type } = error as { type?: string };
      if (type === 'entity.too.large') throw refused(`The body is larger than ${maxBytes} bytes.`, error);
      if (type === 'encoding.unsupported') throw refused('Send the body without Content-Encoding.', error);
      throw refused('The body could not be read to its end.', error);
    }
    return Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  };
}

function refused(message: string, cause: unknown): PurserError {
  return new PurserError('invalid_request', message, { cause });
}
