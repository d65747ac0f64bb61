import { Router } from 'express';
import { findFreeze } from '../../shared/db/freezes.ts';
import type { Pool } from '../../shared/db/pool.ts';
import type { Installation } from '../../shared/installation.ts';
import type { ReadinessResult } from '../../shared/temporal.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';

/** How long a report is good for: a probe may come every second and from several places. */
const reportLifetimeMs = 5_000;
/** Shares that a signature needs. */
const threshold = 2;

interface Check {
  readonly ok: boolean;
  readonly error?: string;
}

interface Report {
  readonly ready: boolean;
  /** Whether the whole installation is frozen: it takes payments and signs none. Null where that is not known. */
  readonly frozen: boolean | null;
  readonly checks: {
    readonly postgres: Check;
    readonly temporal: Check;
    /** Whether this process may work with both. */
    readonly installation: Check;
    readonly signers: Check & { readonly parties?: ReadinessResult['signers'] };
  };
}

interface HealthDependencies {
  readonly pool: Pool;
  readonly temporal: TemporalGateway;
  readonly installation: Installation;
}

/** `/healthz`: the process is alive. `/readyz`: it can do its work, or what is missing. */
export function createHealthRouter(deps: HealthDependencies): Router {
  const router = Router();
  const report = cached(() => makeReport(deps), reportLifetimeMs);
  router.get('/healthz', (_request, response) => {
    response.setHeader('Cache-Control', 'no-store');
    response.json({ status: 'ok' });
  });
  router.get('/readyz', async (_request, response) => {
    const { ready, frozen, checks } = await report();
    response.setHeader('Cache-Control', 'no-store');
    response.status(ready ? 200 : 503).json({ status: ready ? 'ready' : 'not_ready', frozen, checks });
  });
  return router;
}

async function makeReport({ pool, temporal, installation }: HealthDependencies): Promise<Report> {
  const [frozen, postgres, server, belongs, signers] = await Promise.all([
    findFreeze(pool, { scope: 'installation' }).then(
      (freeze) => freeze !== undefined,
      () => null,
    ),
    check(() => pool.query('select 1'), 'Postgres does not answer.'),
    check(() => temporal.ping(), 'Temporal does not answer.'),
    check(() => requireRight(installation), 'It is not known yet whether this process may work with both.'),
    checkSigners(temporal),
  ]);
  const checks = { postgres, temporal: server, installation: belongs, signers };
  return { ready: Object.values(checks).every(({ ok }) => ok), frozen, checks };
}

/** The process ends by itself when something is wrong; until then it is not ready. */
async function requireRight({ database, temporal }: Installation): Promise<void> {
  const wrong = await Promise.all([database(), temporal()]);
  if (wrong.flat().length > 0) throw new Error('This process may not work with what it was pointed at.');
}

async function check(call: () => Promise<unknown>, error: string): Promise<Check> {
  try {
    await call();
    return { ok: true };
  } catch {
    return { ok: false, error };
  }
}

async function checkSigners(temporal: TemporalGateway): Promise<Report['checks']['signers']> {
  try {
    const { signers: parties } = await temporal.readiness();
    const up = parties.filter((party) => party.ok).length;
    if (up >= threshold) return { ok: true, parties };
    return { ok: false, error: `${up} of ${parties.length} signers answer; ${threshold} are needed to sign.`, parties };
  } catch {
    return {
      ok: false,
      error: 'No worker reported on the signers: Temporal, a wallet worker or a signing worker is down.',
    };
  }
}

/** Keeps a result for a while, and lets everybody who asks meanwhile wait for the same one. */
function cached<T>(make: () => Promise<T>, lifetimeMs: number): () => Promise<T> {
  let kept: { value: Promise<T>; untilMs: number } | undefined;
  return () => {
    if (kept && performance.now() < kept.untilMs) return kept.value;
    const entry = { value: make(), untilMs: Number.POSITIVE_INFINITY };
    const startLifetime = () => {
      entry.untilMs = performance.now() + lifetimeMs;
    };
    entry.value.then(startLifetime, startLifetime);
    kept = entry;
    return entry.value;
  };
}
