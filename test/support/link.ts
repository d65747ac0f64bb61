import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** How a link is: good, or every byte late by so much, or every byte lost, or refusing and ending connections. */
export type LinkState = { kind: 'good' } | { kind: 'slow'; delayMs: number } | { kind: 'lossy' } | { kind: 'cut' };

/** A TCP connection between two processes that can be made bad, for machines on which no network of one's own can be made. */
export interface Link {
  /** `http://host:port` of this side of the link. */
  readonly url: string;
  /** Number of times that `text` went over the link towards the target, in whatever state it was. */
  count(text: string): number;
  become(state: LinkState): void;
  stop(): Promise<void>;
}

/** @param target `http://host:port` of the other side */
export async function startLink(target: string): Promise<Link> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let state: LinkState = { kind: 'good' };
  let sent = '';

  function carry(from: Socket, to: Socket, note: (chunk: Buffer) => void): void {
    let last = Promise.resolve();
    from.on('data', (chunk) => {
      note(chunk);
      if (state.kind === 'lossy') return;
      const ms = state.kind === 'slow' ? state.delayMs : 0;
      const due = ms > 0 ? delay(ms) : undefined;
      last = last.then(async () => {
        await due;
        if (!to.destroyed) to.write(chunk);
      });
    });
    from.on('error', () => to.destroy());
    from.on('close', () => void last.then(() => to.destroy()));
  }
  const server = createServer((near) => {
    if (state.kind === 'cut') return void near.destroy();
    const far = connect(Number(port), hostname);
    for (const socket of [near, far]) {
      socket.setNoDelay(true);
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    }
    carry(near, far, (chunk) => {
      sent += chunk.toString('latin1');
    });
    carry(far, near, () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cutAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    count: (text) => sent.split(text).length - 1,
    become(next) {
      state = next;
      if (next.kind === 'cut') cutAll();
    },
    async stop() {
      cutAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
