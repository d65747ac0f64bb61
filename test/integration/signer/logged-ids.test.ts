import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createSignerTransport, type SignerPeer, type TraceCall } from '../../../signer/call.ts';
import { createSignerClient } from '../../../signer/client.ts';
import { parsePublicIdentity } from '../../../signer/identity.ts';
import { othersThan, type Party } from '../../../signer/parties.ts';
import { eventually } from '../../support/client.ts';
import { nativeTransfer, signRequestFor, type TestKey } from '../../support/payments.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';

// Keys are computed, here by three signers on one machine beside another test.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 240_000 });

const party: Party = 1;
const traceId = 'c'.repeat(32);
const traceparent = `00-${traceId}-${'d'.repeat(16)}-01`;

let signers: TestSigners;
let key: TestKey;
let peer: SignerPeer;

beforeAll(async () => {
  signers = await startSigners();
  const { url, publicKey } = signers.endpoints.find((endpoint) => endpoint.party === party)!;
  peer = { party, url, identity: await parsePublicIdentity(publicKey) };
  const client = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity });
  key = await client.generateKey({ keyId: 'ckey_main' });
  client.close();
});
afterAll(() => signers?.stop());

const newPayment = () =>
  signRequestFor(key, { policyKey: signers.policyKey, path: 'm/44/60/0/0/0', transaction: nativeTransfer() });

/** Asks with a header as a coordinator that keeps traces sends it, or as anybody might. */
async function ask(path: '/v1/sign/start' | '/v1/sign/step', p: { session: string; body: object; header?: string }) {
  const served: number[] = [];
  const trace: TraceCall = (_call, work) =>
    work({ traceparent: p.header ?? traceparent, served: (durationMs) => served.push(durationMs) });
  const transport = createSignerTransport({ identity: signers.coordinatorIdentity, now: () => new Date(), trace });
  const { session, body } = p;
  try {
    const result = await transport.call(peer, { path, session, body, timeoutMs: 40_000 }).then(
      () => 'done',
      (error: Error & { code: string }) => error.code,
    );
    return { result, served };
  } finally {
    transport.close();
  }
}
/** What the signer wrote about a session. */
const lineOf = (session: string) =>
  eventually(
    async () =>
      signers
        .output()
        .split('\n')
        .filter((line) => line.includes(session))
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    (lines) => lines.length > 0,
  );
const newSession = () => randomBytes(32).toString('hex');
const transactionOf = ({ receipt }: { receipt: string }) =>
  (JSON.parse(Buffer.from(receipt.split('.')[1]!, 'base64url').toString()) as { transaction_id: string })
    .transaction_id;

describe('a line of a signer', () => {
  it('says session, payment and trace of what is refused before anything is computed', async () => {
    const session = newSession();
    const asked = await newPayment();
    const other = nativeTransfer({ to: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC' });
    const payload = { ...asked.payload, transaction: other };
    const body = { ...asked, payload, counterparty: othersThan(party)[0] };
    expect(await ask('/v1/sign/start', { session, body })).toMatchObject({ result: 'intent_mismatch' });
    const lines = await lineOf(session);
    const facts = { session, path: '/v1/sign/start', transaction_id: transactionOf(asked), trace_id: traceId };
    expect(lines).toMatchObject([{ level: 40, code: 'intent_mismatch', ...facts }]);
  });

  it('says the payment also of a later message, which names none', async () => {
    const session = newSession();
    const asked = await newPayment();
    const body = { ...asked, counterparty: othersThan(party)[0] };
    const begun = await ask('/v1/sign/start', { session, body });
    expect(begun.result).toBe('done');
    expect(begun.served).toHaveLength(1);
    expect(await ask('/v1/sign/step', { session, body: { message: 'x' } })).toMatchObject({ result: 'bad_message' });
    const lines = await lineOf(session);
    const facts = { session, path: '/v1/sign/step', transaction_id: transactionOf(asked), trace_id: traceId };
    expect(lines).toMatchObject([{ level: 50, code: 'bad_message', ...facts }]);
  });

  it.each(['x', `00-${'0'.repeat(32)}-${'d'.repeat(16)}-01`, `${traceparent}"}`])(
    'knows no trace where somebody claims %s, and nothing else depends on that',
    async (header) => {
      const session = newSession();
      const body = { ...(await newPayment()), counterparty: othersThan(party)[0] };
      expect(await ask('/v1/sign/start', { session, body, header })).toMatchObject({ result: 'done' });
      await ask('/v1/sign/step', { session, body: { message: 'x' }, header });
      expect((await lineOf(session))[0]).not.toHaveProperty('trace_id');
    },
  );
});
