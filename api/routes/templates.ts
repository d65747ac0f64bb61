import type { Registry } from '../../shared/chain/registry.ts';
import { findAccount } from '../../shared/db/accounts.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { countTemplates, findTemplate, listTemplates } from '../../shared/db/templates.ts';
import { builtInTemplates, isBuiltIn, type PolicyTemplate } from '../../shared/domain/policy-templates.ts';
import { PurserError } from '../../shared/errors.ts';
import { isId } from '../../shared/ids.ts';
import type { Caller } from '../caller.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { applyTemplate } from '../operations/apply-template.ts';
import { changeTemplate, createTemplate, removeTemplate } from '../operations/change-template.ts';
import { readPage } from '../read-page.ts';
import { renderTemplate } from '../render/template.ts';
import { createRuleWords } from '../schemas/rule-words.ts';
import {
  appliedPolicies,
  applyTemplateBody,
  createTemplateBody,
  deletedTemplate,
  listTemplatesQuery,
  template,
  templateList,
} from '../schemas/templates.ts';

const tag = 'Policy templates';

/** Endpoints of policy templates. */
export function createTemplateEndpoints({ pool, registry }: { pool: Pool; registry: Registry }): Endpoint[] {
  const templateBody = createTemplateBody({ words: createRuleWords({ registry }) });
  const find = async (named: { caller: Caller; id: string }) => findAny(pool, named);
  const findOwn = async (named: { caller: Caller; id: string }) => {
    if (isBuiltIn(named.id)) throw readOnly(named.id);
    return findAny(pool, named);
  };
  return [
    defineEndpoint({
      method: 'post',
      path: '/policy-templates',
      operationId: 'createPolicyTemplate',
      tag,
      summary: 'Create a policy template',
      description:
        'A set of policies that can be copied to any agent of the account. `rules` depends on `type` and is validated as for a policy.',
      body: templateBody,
      answer: template,
      errors: ['invalid_request', 'invalid_amount', 'invalid_address', 'invalid_token'],
      handle: ({ caller: { accountId }, acting, body, once }) =>
        createTemplate(pool, { accountId, acting, content: body, once }),
    }),
    defineEndpoint({
      method: 'get',
      path: '/policy-templates',
      operationId: 'listPolicyTemplates',
      tag,
      summary: 'List policy templates',
      description:
        'Newest first; the built-in ones are older than all others, and so stand at the end: conservative, standard, permissive.',
      query: listTemplatesQuery,
      answer: templateList,
      errors: ['invalid_request'],
      handle: ({ caller: { accountId }, query }) => readTemplates(pool, { accountId, page: query }),
    }),
    defineEndpoint({
      method: 'get',
      path: '/policy-templates/{id}',
      operationId: 'getPolicyTemplate',
      tag,
      summary: 'Get a policy template',
      description: 'A template of this account by its identifier, or a built-in one by its name or identifier.',
      answer: template,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: async ({ found }) => renderTemplate(found),
    }),
    defineEndpoint({
      method: 'put',
      path: '/policy-templates/{id}',
      operationId: 'replacePolicyTemplate',
      tag,
      summary: 'Replace a policy template',
      description:
        'Name, description and policies are replaced as a whole; what is not given is gone. Policies that agents got from the template before stay as they are. A built-in template is read-only: 403.',
      body: templateBody,
      answer: template,
      errors: ['invalid_request', 'invalid_amount', 'invalid_address', 'invalid_token', 'resource_not_found'],
      find: findOwn,
      handle: async ({ caller: { accountId }, acting, found, body }) => {
        const changed = await changeTemplate(pool, { id: found.id, accountId, acting, content: body });
        if (!changed) throw gone(found.id);
        return renderTemplate(changed);
      },
    }),
    defineEndpoint({
      method: 'delete',
      path: '/policy-templates/{id}',
      operationId: 'deletePolicyTemplate',
      tag,
      summary: 'Delete a policy template',
      description:
        'Policies that agents got from the template stay. A second time: 404. A built-in template is read-only: 403.',
      answer: deletedTemplate,
      errors: ['invalid_request', 'resource_not_found'],
      find: findOwn,
      handle: async ({ caller: { accountId }, acting, found }) => {
        if (!(await removeTemplate(pool, { id: found.id, accountId, acting }))) throw gone(found.id);
        return { id: found.id, deleted: true };
      },
    }),
    defineEndpoint({
      method: 'post',
      path: '/policy-templates/{id}/apply',
      operationId: 'applyPolicyTemplate',
      tag,
      summary: 'Apply a policy template to an agent',
      description:
        'Copies the policies to the agent, all or none; later changes of the template do not reach them. Every payment is judged by the policies before or by those after. An agent has at most 20 policies: 403. A built-in template that needs approval asks the account’s owner; while no owner is set: 400.',
      body: applyTemplateBody,
      answer: appliedPolicies,
      errors: ['invalid_request', 'resource_not_found'],
      find,
      handle: ({ caller: { accountId }, acting, found, body, once }) =>
        applyTemplate(pool, { accountId, acting, template: found, body, once }),
    }),
  ];
}

/** One of this account's own by its identifier, or a built-in one by name or identifier. */
async function findAny(
  pool: Pool,
  { caller: { accountId }, id }: { caller: Caller; id: string },
): Promise<PolicyTemplate | undefined> {
  if (isBuiltIn(id)) return (await builtInsOf(pool, accountId)).find((each) => each.id === id || each.name === id);
  return isId('ptpl', id) ? findTemplate(pool, { id, accountId }) : undefined;
}

async function builtInsOf(pool: Pool, accountId: string): Promise<readonly PolicyTemplate[]> {
  const account = await findAccount(pool, { id: accountId });
  return builtInTemplates({ owner: account?.owner_email ?? null });
}

/** One page: the account's own, and after the last of them the built-in ones. */
async function readTemplates(
  pool: Pool,
  { accountId, page }: { accountId: string; page: { page_num: number; page_size: number } },
) {
  const [own, builtIns] = [await countTemplates(pool, { accountId }), await builtInsOf(pool, accountId)];
  return readPage({
    page,
    count: async () => own + builtIns.length,
    list: async ({ limit, offset }) => [
      ...(offset < own ? await listTemplates(pool, { accountId, limit, offset }) : []),
      ...builtIns.slice(Math.max(0, offset - own), Math.max(0, offset + limit - own)),
    ],
    render: renderTemplate,
  });
}

function readOnly(id: string): PurserError {
  return new PurserError(
    'insufficient_permissions',
    `${JSON.stringify(id)} is a built-in template, and those are read-only. Create one of your own instead.`,
  );
}

/** Deleted by somebody else between being found and being changed. */
function gone(id: string): PurserError {
  return new PurserError('resource_not_found', `There is no ${JSON.stringify(id)} in this account.`);
}
