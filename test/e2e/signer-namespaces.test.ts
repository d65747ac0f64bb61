import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSignerClient, type SignerClient } from '../../signer/client.ts';
import { PARTIES } from '../../signer/parties.ts';
import { eventually } from '../support/client.ts';
import {
  createNamespace,
  type LineState,
  type NetworkNamespace,
  namespacesMissing,
} from '../support/network-namespace.ts';
import { startSigners, type TestSigners } from '../support/signers.ts';
import {
  atOnceMs,
  boundMs,
  differentPayments,
  type TimedSignatures,
  timeSignatures,
} from '../support/timed-signatures.ts';

/** How long something takes is looked at again where others used the machine. */
const retry = 3;
const soon = { timeout: 60_000 };

describe.skipIf(namespacesMissing)(
  `signers in networks of their own${namespacesMissing ? `, not here: ${namespacesMissing}` : ''}`,
  () => {
    const namespaces: NetworkNamespace[] = [];
    let signers: TestSigners;
    let client: SignerClient;
    let sign: TimedSignatures;

    beforeAll(async () => {
      for (const index of [1, 2]) namespaces.push(createNamespace(index));
      signers = await startSigners({ network: (party) => namespaces[party - 1] });
      client = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity });
      // On a busy machine not within the time that one try has.
      const key = await eventually(() => client.generateKey({ keyId: 'ckey_main' }), Boolean, { timeoutMs: 400_000 });
      sign = timeSignatures({ client, nextPayment: differentPayments({ policyKey: signers.policyKey, key }) });
    });
    afterAll(async () => {
      client?.close();
      await signers?.stop();
      for (const namespace of namespaces) namespace.remove();
    });

    const bothAnswer = PARTIES.map(() => ({ ok: true }));

    it.each<[string, LineState]>([
      ['thin', 'thin'],
      ['without a trace of what is sent', 'lossy'],
      ['down', 'down'],
    ])(
      'sign on within 2 s when one line becomes %s, at once afterwards, and use it again when it is good',
      { retry },
      async (_, state) => {
        await expect.poll(() => client.health(), soon).toMatchObject(bothAnswer);
        const usual = await sign.inTurn(3);
        const [bound, atOnce] = [boundMs(usual), atOnceMs(usual)];
        const [first, second] = namespaces as [NetworkNamespace, NetworkNamespace];
        for (const [bad, other] of [
          [first, second],
          [second, first],
        ] as const) {
          bad.become(state);
          const took = await sign.inTurn(8).finally(() => bad.become('good'));
          expect(Math.max(...took)).toBeLessThan(bound);
          expect(took.filter((ms) => ms > atOnce).length).toBeLessThanOrEqual(1);
          await expect.poll(() => sign.one().then(() => client.health()), soon).toMatchObject(bothAnswer);
          other.become('down');
          const without = sign.one().finally(() => other.become('good'));
          expect(await without).toBeLessThan(bound);
          await expect.poll(() => client.health(), soon).toMatchObject(bothAnswer);
        }
      },
    );

    it('answer, and never ask: no signer has opened a connection, sent a datagram, or looked for a way out', () => {
      for (const namespace of namespaces) {
        const { connectionsTaken, ...outgoing } = namespace.counters();
        expect(connectionsTaken).toBeGreaterThan(0);
        expect(outgoing).toEqual({ connectionsOpened: 0, datagramsSent: 0, unroutable: 0 });
      }
    });
  },
);
