// `node test/replay/record-webhooks.ts`: the same as record.ts for deliveries to webhooks.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { eventually } from '../support/client.ts';
import { client, connection, save } from './recorder.ts';

const secret = 'whsec_cmVjb3JkaW5nIHdoYXQgZGVsaXZlcmllcyBsb29rIGxpa2U=';

/** A delivery to a receiver that answers as told, one request after the other. */
async function deliver(answers: readonly number[]): Promise<string> {
  const left = [...answers];
  const server = createServer((_request, response) => void response.writeHead(left.shift() ?? 200).end());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const { body: webhook } = await client.post('/webhooks', { url, events: ['webhook.test'], secret });
  const tested = (await client.post(`/webhooks/${webhook.id}/test`, {})).body;
  const { body } = await client.post(`/webhooks/${webhook.id}/deliveries/${tested.id}/redeliver`, {});
  await eventually(
    async () => (await client.get(`/webhooks/${webhook.id}/deliveries/${body.id}`)).body,
    ({ status }) => status !== 'pending',
    { timeoutMs: 60_000 },
  );
  server.close();
  return body.id;
}

// The first answer is the test's.
await save('webhook-delivery-succeeded', await deliver([200, 200]));
await save('webhook-delivery-retried', await deliver([200, 500, 200]));
await save('webhook-delivery-failed', await deliver([200, 410]));
await connection.close();
