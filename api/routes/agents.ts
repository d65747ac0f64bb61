import { countAgents, findAgent, listAgents } from '../../shared/db/agents.ts';
import { PurserError } from '../../shared/errors.ts';
import { isId } from '../../shared/ids.ts';
import { boundAgentOf, type Caller } from '../caller.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { agentBalances } from '../operations/agent-balances.ts';
import { type CreateAgentDependencies, createAgent } from '../operations/create-agent.ts';
import { removeAgent } from '../operations/delete-agent.ts';
import { setAgentStatus } from '../operations/set-agent-status.ts';
import { changeAgent } from '../operations/update-agent.ts';
import { readPage } from '../read-page.ts';
import { renderAgent } from '../render/agent.ts';
import {
  agent,
  agentList,
  createAgentBody,
  deletedAgent,
  listAgentsQuery,
  setAgentStatusBody,
  updateAgentBody,
} from '../schemas/agents.ts';
import { balances } from '../schemas/balances.ts';

const tag = 'Agents';

/** Endpoints of agents. */
export function createAgentEndpoints(deps: CreateAgentDependencies): Endpoint[] {
  const { pool, temporal } = deps;
  const find = async ({ caller, id }: { caller: Caller; id: string }) =>
    isId('agent', id) ? findAgent(pool, { id, accountId: caller.accountId }) : undefined;
  return [
    defineEndpoint({
      method: 'post',
      path: '/agents',
      operationId: 'createAgent',
      tag,
      summary: 'Create an agent and its wallet',
      description:
        "The wallet's address is derived at once from the account's key, which the signers made together and which no single process holds. It can receive funds immediately. The first agent of an account may wait some seconds until that key is made.",
      body: createAgentBody,
      answer: agent,
      errors: ['invalid_request', 'invalid_chain'],
      handle: async ({ caller, acting, body, log, once }) =>
        renderAgent(
          await createAgent(deps, { accountId: caller.accountId, plan: caller.account.plan, acting, body, log, once }),
        ),
    }),
    defineEndpoint({
      method: 'get',
      path: '/agents',
      operationId: 'listAgents',
      tag,
      summary: 'List agents',
      description: 'Newest first.',
      query: listAgentsQuery,
      answer: agentList,
      errors: ['invalid_request'],
      handle: ({ caller, query }) => {
        const filter = {
          accountId: caller.accountId,
          id: boundAgentOf(caller),
          status: query.status,
          chain: query.chain,
        };
        return readPage({
          page: query,
          count: () => countAgents(pool, filter),
          list: (window) => listAgents(pool, { ...filter, ...window }),
          render: renderAgent,
        });
      },
    }),
    defineEndpoint({
      method: 'get',
      path: '/agents/{id}',
      operationId: 'getAgent',
      tag,
      summary: 'Get an agent',
      description: 'An agent of this account.',
      answer: agent,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      agentOf: (found) => found.id,
      handle: async ({ found }) => renderAgent(found),
    }),
    defineEndpoint({
      method: 'put',
      path: '/agents/{id}',
      operationId: 'updateAgent',
      tag,
      summary: 'Change what an agent is called and what is noted of it, or freeze it',
      description:
        'What is left out stays as it is; `null` takes a description or metadata away. What the agent may do is not changed by this, but by `frozen: true`: within a second nothing new is signed for the agent, and its payments wait until that is lifted. An API key may freeze; it is lifted by people, and a freeze by whoever runs this installation by them alone: 403.',
      body: updateAgentBody,
      answer: agent,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      agentOf: (found) => found.id,
      handle: async ({ caller, acting, found, body }) => {
        const changed = await changeAgent(pool, { id: found.id, accountId: caller.accountId, acting, body });
        if (body.frozen !== undefined) await temporal.tellFreeze();
        return renderAgent(changed ?? gone(found.id));
      },
    }),
    defineEndpoint({
      method: 'delete',
      path: '/agents/{id}',
      operationId: 'deleteAgent',
      tag,
      summary: 'Delete an agent',
      description:
        'Only with nothing under way and nothing in its wallet, but for a rest of the coin of a chain that could not pay for its own transfer; otherwise 400, and `details` lists what is there. Its API keys and its policies go with it, and its name is free again. What it did can still be listed by its id. The key of its wallet is not destroyed. A second time: 404.',
      answer: deletedAgent,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      agentOf: (found) => found.id,
      handle: async ({ acting, found, log }) => {
        if (!(await removeAgent(deps, { agent: found, acting, log }))) gone(found.id);
        return { id: found.id, deleted: true };
      },
    }),
    defineEndpoint({
      method: 'get',
      path: '/agents/{id}/balances',
      operationId: 'getAgentBalances',
      tag,
      summary: "Get an agent's balances",
      description:
        'Every token on every chain on which the agent can pay, read from the chains now, and what of it is held for payments under way. Where a chain or a token cannot be read, its entry says why, and the others are there.',
      answer: balances,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      agentOf: (found) => found.id,
      handle: async ({ found }) => ({ data: await agentBalances(deps, { agent: found }) }),
    }),
    defineEndpoint({
      method: 'put',
      path: '/agents/{id}/status',
      operationId: 'setAgentStatus',
      tag,
      summary: 'Activate or deactivate an agent',
      description:
        'An inactive agent sends nothing: new payments are refused, and those that are not signed yet fail with `agent_inactive` when their turn comes. Reading works as before. Setting the status that the agent has already changes nothing.',
      body: setAgentStatusBody,
      answer: agent,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      agentOf: (found) => found.id,
      handle: async ({ caller, acting, found, body }) => {
        const changed = await setAgentStatus(pool, {
          id: found.id,
          accountId: caller.accountId,
          acting,
          status: body.status,
        });
        return renderAgent(changed ?? gone(found.id));
      },
    }),
  ];
}

/** Deleted by somebody else between being found and being changed. */
function gone(id: string): never {
  throw new PurserError('resource_not_found', `There is no ${JSON.stringify(id)} in this account.`);
}
