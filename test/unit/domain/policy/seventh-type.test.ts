import { describe, expect, it, vi } from 'vitest';
import { createOpenApiDocument } from '../../../../api/openapi.ts';
import { createPolicyEndpoints } from '../../../../api/routes/policies.ts';
import { createPolicyBodies, createTypedRulesSchema } from '../../../../api/schemas/policies.ts';
import { createRegistry } from '../../../../shared/chain/registry.ts';
import { createPool } from '../../../../shared/db/pool.ts';
import { evaluate, explainViolation, windowsOf } from '../../../../shared/domain/policy/engine.ts';
import { createUsage } from '../../../../shared/domain/policy/usage.ts';
import { multiples } from './multiples.ts';
import { now, paymentOf, words } from './support.ts';

// The further line.
vi.mock('../../../../shared/domain/policy/table.ts', async (original) => ({
  ...(await original<object>()),
  multiples: (await import('./multiples.ts')).multiples,
}));

describe('a seventh type of policy', () => {
  const stored = { id: 'pol_a', type: 'multiples', rules: { of: 7 } };

  it('is judged and explained by the engine', () => {
    expect(windowsOf([stored])).toEqual([7]);
    const judged = (amount: string) =>
      evaluate({
        payment: paymentOf({ amount }),
        policies: [stored],
        usage: createUsage({ windowsMs: [7], entries: [] }),
        now,
        defaultDeny: false,
      }).decision;
    expect(judged('0.000014').outcome).toBe('allow');
    const [violation] = judged('0.000015').violations;
    expect(violation).toMatchObject({ policy_type: 'multiples', rule: 'of', limit: '7', attempted: '15' });
    expect(explainViolation(violation!)).toBe('15 is no multiple of 7.');
  });

  it('is taken in bodies and in templates', () => {
    const { create, replaceFor } = createPolicyBodies(words);
    const body = { agent_id: 'agent_x', type: 'multiples', rules: { of: 7 } };
    expect(create.parse(body)).toEqual(body);
    expect(create.safeParse({ ...body, rules: { of: '7' } }).success).toBe(false);
    expect(replaceFor('multiples' as 'schedule').parse({ rules: { of: 7 } })).toEqual({ rules: { of: 7 } });
    expect(createTypedRulesSchema(words).parse({ type: 'multiples', rules: { of: 7 } })).toMatchObject({
      type: 'multiples',
    });
  });

  it('is in the reference, as it is asked for and as it is answered', async () => {
    const pool = createPool({ url: 'postgres://127.0.0.1:1/nobody', application: 'test' });
    const registry = createRegistry({ environment: 'sandbox', enabled: ['eip155:31337'] });
    const endpoints = createPolicyEndpoints({ pool, registry });
    const { paths, components } = createOpenApiDocument({ endpoints, version: '1' });
    await pool.end();
    for (const part of [paths?.['/api/v1/policies']?.post?.requestBody, components?.schemas?.Policy])
      expect(JSON.stringify(part)).toContain(multiples.description);
    expect(JSON.stringify(paths?.['/api/v1/policies/{id}']?.put?.requestBody)).toContain(multiples.description);
  });
});
