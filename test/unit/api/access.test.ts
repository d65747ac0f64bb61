import { describe, expect, it } from 'vitest';
import { type Access, access } from '../../../api/access.ts';
import { hasScope, type Scope, scopes } from '../../../shared/domain/access.ts';

const rows = Object.entries<Access>(access).flatMap(([id, row]) => (row.by === 'caller' ? [{ id, ...row }] : []));
/** Names of operations that change nothing begin so. */
const reads = /^(get|list|verify|export|simulate)/;

describe('the table of who may what', () => {
  it('lets whoever may read do nothing but read', () => {
    for (const { id, scope, role } of rows) {
      if (scope !== null) expect([id, scope.endsWith(':read')]).toEqual([id, reads.test(id)]);
      // Whoever is signed in may sign out.
      if (role === 'viewer' && id !== 'signOut') expect(id).toMatch(reads);
    }
  });

  it('lets approvers decide, and do nothing else that viewers may not', () => {
    const forApprovers = rows.filter(({ role }) => role === 'approver').map(({ id }) => id);
    expect(forApprovers).toEqual(['approveApproval', 'rejectApproval', 'approveTransaction', 'rejectTransaction']);
  });

  it('lets keys of an agent pay, and change nothing else', () => {
    const written = rows.filter(({ agentKeys, scope }) => agentKeys && scope?.endsWith(':write'));
    expect([...new Set(written.map(({ scope }) => scope))].sort()).toEqual(['transactions:write', 'x402:write']);
  });

  it('tells keys why they may not, wherever none may', () => {
    for (const row of rows.filter(({ scope }) => scope === null))
      expect([row.id, row.refusal]).toEqual([row.id, expect.stringMatching(/^An API key .+: .*(sign in|delete)/)]);
  });

  it('has an operation for every scope', () => {
    const used = new Set(rows.map(({ scope }) => scope));
    expect(scopes.filter((scope) => !used.has(scope))).toEqual([]);
  });
});

describe('a scope', () => {
  it.each<[readonly Scope[] | null, Scope, boolean]>([
    [null, 'policies:write', true],
    [['policies:write'], 'policies:write', true],
    [['policies:write'], 'policies:read', true],
    [['policies:read'], 'policies:write', false],
    [['policies:read'], 'policies:read', true],
    [['agents:write', 'x402:write'], 'policies:read', false],
    [['account:read'], 'audit:read', false],
    [[], 'agents:read', false],
  ])('%j has %s: %s', (granted, scope, has) => {
    expect(hasScope(granted, scope)).toBe(has);
  });
});
