import { readFileSync } from 'node:fs';
import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { createRequestMeasures } from '../../api/middleware/measure-requests.ts';
import type { Pool } from '../../shared/db/pool.ts';
import type { Logger } from '../../shared/log.ts';
import { measureDatabase } from '../../shared/metrics/database-gauges.ts';
import { measureEndpoints } from '../../shared/metrics/endpoints.ts';
import { openMetrics } from '../../shared/metrics/open-metrics.ts';
import { measurePool } from '../../shared/metrics/pool.ts';
import type { SignerContext } from '../../signer/context.ts';
import { measureSigner } from '../../signer/metrics.ts';
import { measureActivities } from '../../worker/measure-activities.ts';
import { measureSigners } from '../../worker/measure-signers.ts';
import { measureSlots, measureTemporal } from '../../worker/measure-temporal.ts';
import { measureWatchers } from '../../worker/measure-watchers.ts';

const document = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8');
const log = {} as Logger;

/** What every process registers; nothing is asked for a value. */
async function registered(): Promise<{ name: string; help: string }[]> {
  const { registry } = await openMetrics(undefined, { process: 'test', log });
  const pool = { options: { max: 1 } } as unknown as Pool;
  measureDatabase({ pool, registry, log });
  measurePool(pool, registry);
  measureEndpoints(registry);
  measureActivities(registry);
  measureSigners(registry);
  measureWatchers(registry);
  measureSlots(registry);
  measureTemporal({ buffer: { retrieveUpdates: () => [].values() }, registry, log });
  createRequestMeasures(registry);
  const ofSigner = new Registry();
  measureSigner({ party: 1, engine: { build: 'wasm' }, backup: {} } as unknown as SignerContext, ofSigner);
  return [...registry.getMetricsAsArray(), ...ofSigner.getMetricsAsArray()].map(({ name, help }) => ({ name, help }));
}

describe('docs/metrics.md', () => {
  it('lists every metric that is registered, in the same words, and no other', async () => {
    const rows = document.matchAll(/^\| `(\w+)` +\| (.+?) +\|$/gm);
    const listed = [...rows].map(([, name, help]) => ({ name: name!, help: help! }));
    const byName = (a: { name: string }, b: { name: string }) => a.name.localeCompare(b.name);
    expect(listed.toSorted(byName)).toEqual((await registered()).toSorted(byName));
  });
});
