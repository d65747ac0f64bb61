import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { EndpointOutcome, EndpointWatch } from '../chain/endpoints/endpoint-watch.ts';

/** An endpoint is given up on after 4 s; seconds. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4];

const outcomes: readonly EndpointOutcome[] = ['ok', 'refused', 'limited', 'down', 'wrong_chain'];

/** Registers how the RPC endpoints of chains do, by host and place in the configuration, never by URL: that may hold a key. */
export function measureEndpoints(registry: Registry): (chain: string) => EndpointWatch {
  const registers = [registry];
  const names = ['chain', 'host', 'endpoint'] as const;
  const requests = new Counter({
    name: 'purser_rpc_requests_total',
    help: 'Questions to RPC endpoints, by outcome: ok, refused (it answered, and said no), limited, down, wrong_chain.',
    labelNames: [...names, 'outcome'],
    registers,
  });
  const durations = new Histogram({
    name: 'purser_rpc_request_duration_seconds',
    help: 'How long RPC endpoints took, whatever came of it.',
    labelNames: ['chain', 'host', 'endpoint'],
    buckets: durationBuckets,
    registers,
  });
  const healthy = new Gauge({
    name: 'purser_rpc_endpoint_healthy',
    help: '1 unless the endpoint was limited, down or of another chain when it was last asked.',
    labelNames: [...names],
    registers,
  });
  return (chain) => ({
    add({ host, index }) {
      const labels = { chain, host, endpoint: String(index + 1) };
      healthy.set(labels, 1);
      // There from the start: a rule sees no increase in a counter that begins with 1.
      for (const outcome of outcomes) requests.inc({ ...labels, outcome }, 0);
      return ({ outcome, seconds }) => {
        requests.inc({ ...labels, outcome });
        healthy.set(labels, Number(outcome === 'ok' || outcome === 'refused'));
        durations.observe(labels, seconds);
      };
    },
  });
}
