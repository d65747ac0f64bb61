import { readChainState } from '../../shared/db/audit-heads.ts';
import { type AuditLogRow, countAuditLogs, listAuditLogs, readChain } from '../../shared/db/audit-logs.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { renderAudit } from '../../shared/render-audit.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { Lines } from '../lines.ts';
import { verifyAudit } from '../operations/verify-audit.ts';
import { readPage } from '../read-page.ts';
import {
  auditEntry,
  auditEntryList,
  auditHead,
  auditVerification,
  exportAuditQuery,
  listAuditLogsQuery,
  maxChecked,
  verifyAuditQuery,
} from '../schemas/audit-logs.ts';

const tag = 'Audit log';
/** Entries that an export holds in memory. */
const exportBatch = 200;

/** Endpoints of the audit log. */
export function createAuditLogEndpoints({ pool }: { pool: Pool }): Endpoint[] {
  return [listEndpoint(pool), headEndpoint(pool), verifyEndpoint(pool), exportEndpoint(pool)];
}

function listEndpoint(pool: Pool): Endpoint {
  return defineEndpoint({
    method: 'get',
    path: '/audit-logs',
    operationId: 'listAuditLogs',
    tag,
    summary: 'List the audit log',
    description:
      'Who did what, newest first: every change, refused credential, policy decision, answer to a question and signature. An entry is here as soon as it has its place in the chain, a moment after what it reports.',
    query: listAuditLogsQuery,
    answer: auditEntryList,
    errors: ['invalid_request'],
    handle: async ({ caller: { accountId }, query }) => {
      const { action, actor_id, resource_type, resource_id, agent_id, result, from, to } = query;
      const filter = {
        ...{ accountId, action, actorId: actor_id, resourceType: resource_type, resourceId: resource_id },
        ...{ agentId: agent_id, result, from, to },
      };
      return readPage({
        page: query,
        count: () => countAuditLogs(pool, filter),
        list: (window) => listAuditLogs(pool, { ...filter, ...window }),
        render: renderAudit,
      });
    },
  });
}

function headEndpoint(pool: Pool): Endpoint {
  return defineEndpoint({
    method: 'get',
    path: '/audit-logs/head',
    operationId: 'getAuditHead',
    tag,
    summary: 'Get the head of the audit log',
    description:
      'The newest entry by its number and hash, which stands for all that came before. Note it elsewhere now and then: an end that is cut off, or a chain that is written anew, is found by it and by nothing else.',
    answer: auditHead,
    errors: ['invalid_request'],
    handle: async ({ caller: { accountId } }) => {
      const { head, unsealed } = await readChainState(pool, { accountId });
      return { ...head, unsealed };
    },
  });
}

function verifyEndpoint(pool: Pool): Endpoint {
  return defineEndpoint({
    method: 'get',
    path: '/audit-logs/verify',
    operationId: 'verifyAuditLog',
    tag,
    summary: 'Verify the audit log',
    description: `Follows the chain and says where it is broken first, if it is. One request checks up to ${maxChecked} entries; where there are more, go on with \`from_seq\` = \`next_seq\`. With \`head_seq\` and \`head_hash\` of a head that you noted, it is found too if the end was cut off since, or the chain written anew. The same can be done offline with an export.`,
    query: verifyAuditQuery,
    answer: auditVerification,
    errors: ['invalid_request'],
    handle: ({ caller: { accountId }, query: { from_seq, limit, head_seq, head_hash } }) => {
      const noted = head_seq === undefined ? undefined : { seq: head_seq, hash: head_hash! };
      return verifyAudit(pool, { accountId, fromSeq: from_seq, limit: limit ?? maxChecked, noted });
    },
  });
}

function exportEndpoint(pool: Pool): Endpoint {
  return defineEndpoint({
    method: 'get',
    path: '/audit-logs/export',
    operationId: 'exportAuditLog',
    tag,
    summary: 'Export the audit log',
    description:
      'Entries in the order of the chain, as JSON lines: every line is an entry. Sent as fast as you read; an answer that breaks off is not the whole. `sdk/verify-audit-export.ts` checks such a file offline.',
    query: exportAuditQuery,
    answer: auditEntry,
    inLines: true,
    errors: ['invalid_request'],
    handle: async ({ caller: { accountId }, query: { from_seq: fromSeq = 1, to_seq } }) => {
      const { head } = await readChainState(pool, { accountId });
      const toSeq = Math.min(to_seq ?? head.seq, head.seq);
      return new Lines(rendered(readChain(pool, { accountId, fromSeq, toSeq, batch: exportBatch })));
    },
  });
}

async function* rendered(batches: AsyncIterable<AuditLogRow[]>) {
  for await (const rows of batches) yield rows.map(renderAudit);
}
