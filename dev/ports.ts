import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';
import getPort from 'get-port';

export const LOOPBACK = '127.0.0.1';
const HIGHEST_PORT = 65_535;

/** A port cannot be used; the message names it, its purpose and the variable that changes it. */
export class PortUnavailable extends Error {
  override name = 'PortUnavailable';
}

/**
 * Below the ports that systems give to outgoing connections (from 32768 on Linux): one of those may be taken by a
 * connection of anybody between being found free and being listened on.
 */
const FREE_PORTS = { first: 20_000, end: 32_000 };
const CANDIDATES = 50;

/** Any free port of the loopback interface; at random, so that others who choose at the same time choose another. */
export function freePort(): Promise<number> {
  const port = Array.from({ length: CANDIDATES }, () => randomInt(FREE_PORTS.first, FREE_PORTS.end));
  return getPort({ host: LOOPBACK, reserve: true, port });
}

/**
 * Decides on a port: the value of the environment variable, else the default; `0` picks a free one.
 * Throws {@link PortUnavailable} when it is no port or somebody listens there already.
 */
export async function choosePort(
  env: NodeJS.ProcessEnv,
  o: { variable: string; purpose: string; fallback: number },
): Promise<number> {
  const port = parsePort({ value: env[o.variable] ?? String(o.fallback), variable: o.variable });
  if (port === 0) return freePort();
  const reason = await listenError(port);
  if (reason === undefined) return port;
  const what = reason === 'EADDRINUSE' ? 'is in use by another program' : `cannot be opened (${reason})`;
  throw new PortUnavailable(
    `Port ${port} (${o.purpose}) ${what}; stop that program or set ${o.variable} to another port (0 picks a free one).`,
  );
}

/** Reads a port number from text; 0 is allowed. */
export function parsePort(o: { value: string; variable: string }): number {
  const port = Number(o.value);
  if (/^\d+$/.test(o.value) && port <= HIGHEST_PORT) return port;
  throw new PortUnavailable(
    `${o.variable} is "${o.value}"; give a port number from 1 to ${HIGHEST_PORT}, or 0 for a free one.`,
  );
}

function listenError(port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ port, host: LOOPBACK, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}
