import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

export interface TestNameServer {
  /** `address:port`. */
  readonly address: string;
  /** Names that were asked for, once for each kind of address. */
  readonly asked: readonly string[];
  stop(): Promise<void>;
}

const headerBytes = 12;

/**
 * A name server for tests (RFC 1035, as much as a resolver needs), over UDP.
 * @param addressesOf what a name leads to just now; undefined leaves the question without an answer
 */
export async function startNameServer(
  addressesOf: (name: string) => readonly string[] | undefined,
): Promise<TestNameServer> {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (query, { port, address }) => {
    const { name, type, end } = readQuestion(query);
    asked.push(name);
    const found = addressesOf(name);
    if (found) socket.send(answer(query.subarray(0, end), { type, addresses: found }), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    async stop() {
      socket.close();
      await once(socket, 'close');
    },
  };
}

function readQuestion(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = headerBytes;
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.'), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** The question again, and behind it the addresses of the kind that was asked for. */
function answer(question: Buffer, { type, addresses }: { type: number; addresses: readonly string[] }): Buffer {
  const ofKind = addresses.filter((each) => (type === 28) === isIPv6(each));
  const head = Buffer.from(question);
  head.writeUInt16BE(0x8180, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(ofKind.length, 6);
  head.writeUInt32BE(0, 8);
  const records = ofKind.map((each) => {
    const bytes = ipaddr.parse(each).toByteArray();
    return Buffer.from([0xc0, headerBytes, 0, type, 0, 1, 0, 0, 0, 0, 0, bytes.length, ...bytes]);
  });
  return Buffer.concat([head, ...records]);
}
