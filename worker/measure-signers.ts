import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { SignerClient, TraceCall } from '../signer/client.ts';
import { type RefusalReason, SignerFault, SignRefused } from '../signer/errors.ts';

/** One request within a signature has 5 s, a whole one 20 s, a round of key generation more; seconds. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 45];
const parties = [1, 2, 3] as const;
/** Refusals of which there are none while nobody is taken over. */
const alarming: readonly RefusalReason[] = ['receipt_invalid', 'intent_mismatch', 'unsupported_call', 'slot_taken'];

/** What is measured of the signers from where they are asked: an honest signer cannot say that it is not reached. */
export interface SignerMeasures {
  /** Stands around each call. @param inner what stands around it besides */
  around(inner: TraceCall | undefined): TraceCall;
  /** The same client, whose signatures are measured. */
  wrap(client: SignerClient): SignerClient;
}

/** Registers how signatures and calls of signers go. */
export function measureSigners(registry: Registry): SignerMeasures {
  const registers = [registry];
  const signatures = new Counter({
    name: 'purser_signatures_total',
    help: 'Signatures that were asked for, by outcome: ok, fault (something is wrong with a signer), unavailable (no two signers in time), or why the signers’ own checks refused it.',
    labelNames: ['outcome'],
    registers,
  });
  const seconds = new Histogram({
    name: 'purser_signature_duration_seconds',
    help: 'How long signatures took that came about, from being asked for, with the wait for their turn.',
    buckets: durationBuckets,
    registers,
  });
  const calls = new Counter({
    name: 'purser_signer_calls_total',
    help: 'Requests to each signer, by outcome: answered (also with a refusal), or lost (not reached, or not in time).',
    labelNames: ['party', 'outcome'],
    registers,
  });
  const callSeconds = new Histogram({
    name: 'purser_signer_call_duration_seconds',
    help: 'How long each signer took to answer a request, as seen by the worker.',
    labelNames: ['party'],
    buckets: durationBuckets,
    registers,
  });
  const up = new Gauge({
    name: 'purser_signer_up',
    help: '1 where the signer answered when it was last asked for its health or for anything else.',
    labelNames: ['party'],
    registers,
  });
  // Counters that are there from the start: a rule sees no increase in one that begins with 1.
  for (const outcome of ['ok', 'fault', 'unavailable', ...alarming]) signatures.inc({ outcome }, 0);
  for (const party of parties) for (const outcome of ['answered', 'lost']) calls.inc({ party, outcome }, 0);

  return {
    around:
      (inner = (_call, work) => work()) =>
      (call, work) =>
        inner(call, async (traced) => {
          const { party } = call;
          const startedMs = performance.now();
          try {
            const answer = await work(traced);
            calls.inc({ party, outcome: 'answered' });
            callSeconds.observe({ party }, (performance.now() - startedMs) / 1000);
            up.set({ party }, 1);
            return answer;
          } catch (error) {
            calls.inc({ party, outcome: 'lost' });
            up.set({ party }, 0);
            throw error;
          }
        }),
    wrap: (client) => ({
      ...client,
      async health() {
        const states = await client.health();
        for (const { party, ok } of states) up.set({ party }, Number(ok));
        return states;
      },
      async sign(request) {
        const end = seconds.startTimer();
        try {
          const signature = await client.sign(request);
          end();
          signatures.inc({ outcome: 'ok' });
          return signature;
        } catch (error) {
          signatures.inc({ outcome: outcomeOf(error) });
          throw error;
        }
      },
    }),
  };
}

function outcomeOf(error: unknown): string {
  if (error instanceof SignRefused) return error.reason;
  return error instanceof SignerFault ? 'fault' : 'unavailable';
}
