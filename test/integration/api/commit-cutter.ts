import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A way to Postgres on which connections break at the worst moment. */
export interface CommitCutter {
  /** The same database, by this way. */
  readonly url: string;
  /**
   * Breaks the next connection that commits: before Postgres hears of it, so that nothing is kept; or after, so that
   * all of it is, and nobody knows.
   */
  cutNextCommit(when: 'before' | 'after'): void;
  stop(): Promise<void>;
}

/** Starts it on a free port of the loopback. */
export async function startCommitCutter({ databaseUrl }: { databaseUrl: string }): Promise<CommitCutter> {
  const target = new URL(databaseUrl);
  const open = new Set<Socket>();
  let cut: 'before' | 'after' | undefined;
  const server = createServer((client) => {
    const postgres = connect({ host: target.hostname, port: Number(target.port) });
    const pass = (from: Socket, to: Socket, isCommit: (chunk: Buffer) => boolean) => {
      open.add(from);
      from.on('data', (chunk) => {
        if (!isCommit(chunk)) {
          to.write(chunk);
          return;
        }
        cut = undefined;
        client.destroy();
        postgres.destroy();
      });
      from.on('error', () => {});
      from.on('close', () => {
        open.delete(from);
        to.destroy();
      });
    };
    // The text of the statement, and what Postgres says when it is done.
    pass(client, postgres, (chunk) => cut === 'before' && chunk.includes('commit\0'));
    pass(postgres, client, (chunk) => cut === 'after' && chunk.includes('COMMIT\0'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: url.href,
    cutNextCommit(when) {
      cut = when;
    },
    async stop() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
