import type { Registry } from '../../shared/chain/registry.ts';
import { countPolicies, findPolicy, listPolicies, type PolicyRow } from '../../shared/db/policies.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import { isId } from '../../shared/ids.ts';
import type { Caller } from '../caller.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { createPolicy, removePolicy, replacePolicy } from '../operations/change-policy.ts';
import { readPage } from '../read-page.ts';
import { renderPolicy } from '../render/policy.ts';
import { requireAgent } from '../require-agent.ts';
import { createPolicyBodies, deletedPolicy, listPoliciesQuery, policy, policyList } from '../schemas/policies.ts';
import { createRuleWords } from '../schemas/rule-words.ts';

const tag = 'Policies';
const faults = ['invalid_request', 'invalid_amount', 'invalid_address', 'invalid_token'] as const;

/** Endpoints of policies. */
export function createPolicyEndpoints({ pool, registry }: { pool: Pool; registry: Registry }): Endpoint[] {
  const bodies = createPolicyBodies(createRuleWords({ registry }));
  const find = async ({ caller, id }: { caller: Caller; id: string }) =>
    isId('pol', id) ? findPolicy(pool, { id, accountId: caller.accountId }) : undefined;
  return [
    defineEndpoint({
      method: 'post',
      path: '/policies',
      operationId: 'createPolicy',
      tag,
      summary: 'Attach a policy to an agent',
      description:
        'Every payment of the agent is judged by all its policies, once when it is asked for and once more right before it is signed. All must pass. `rules` depends on `type`; members of another type are refused. At most 20 policies an agent.',
      body: bodies.create,
      answer: policy,
      errors: faults,
      handle: async ({ caller: { accountId }, acting, body, once }) => {
        const { id: agentId } = await requireAgent(pool, { id: body.agent_id, accountId });
        return createPolicy(pool, { accountId, agentId, acting, policy: body, once });
      },
    }),
    defineEndpoint({
      method: 'get',
      path: '/policies',
      operationId: 'listPolicies',
      tag,
      summary: 'List policies',
      description: 'Newest first.',
      query: listPoliciesQuery,
      answer: policyList,
      errors: ['invalid_request'],
      handle: async ({ caller, query }) => {
        const filter = { accountId: caller.accountId, agentId: query.agent_id };
        if (filter.agentId !== undefined) await requireAgent(pool, { id: filter.agentId, accountId: caller.accountId });
        return readPage({
          page: query,
          count: () => countPolicies(pool, filter),
          list: (window) => listPolicies(pool, { ...filter, ...window }),
          render: renderPolicy,
        });
      },
    }),
    defineEndpoint({
      method: 'get',
      path: '/policies/{id}',
      operationId: 'getPolicy',
      tag,
      summary: 'Get a policy',
      description: 'A policy of this account.',
      answer: policy,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: async ({ found }) => renderPolicy(found),
    }),
    defineEndpoint({
      method: 'put',
      path: '/policies/{id}',
      operationId: 'replacePolicyRules',
      tag,
      summary: "Replace a policy's rules",
      description:
        'The rules are replaced as a whole; what is not given is gone. Applies at once, also to payments that are not signed yet.',
      body: bodies.replace,
      bodyFor: (found: PolicyRow) => bodies.replaceFor(found.type),
      answer: policy,
      errors: [...faults, 'resource_not_found'],
      find,
      handle: async ({ acting, found, body }) => {
        const changed = await replacePolicy(pool, found, { acting, rules: body.rules });
        if (!changed) throw gone(found.id);
        return renderPolicy(changed);
      },
    }),
    defineEndpoint({
      method: 'delete',
      path: '/policies/{id}',
      operationId: 'deletePolicy',
      tag,
      summary: 'Delete a policy',
      description: 'The constraint stops applying at once. A second time: 404.',
      answer: deletedPolicy,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: async ({ acting, found }) => {
        if (!(await removePolicy(pool, found, { acting }))) throw gone(found.id);
        return { id: found.id, deleted: true };
      },
    }),
  ];
}

/** Deleted by somebody else between being found and being changed. */
function gone(id: string): PurserError {
  return new PurserError('resource_not_found', `There is no ${JSON.stringify(id)} in this account.`);
}
