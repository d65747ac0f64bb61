import { z } from 'zod';
import { chainId, instant, listOf, optional, pageParameters, text } from './common.ts';
import { freezeMembers, frozenMembers, isReasonAlone, reasonAlone } from './freeze.ts';

/** Largest `metadata`, in bytes of UTF-8. */
const maxMetadataBytes = 16 * 1024;

const metadata = z
  .string()
  .refine((value) => value.isWellFormed(), { error: 'must be well-formed Unicode, without unpaired surrogates.' })
  .refine((value) => Buffer.byteLength(value) <= maxMetadataBytes, {
    error: `must have at most ${maxMetadataBytes} bytes.`,
  })
  .refine(isJsonObject, { error: 'must be a string that holds a JSON object, such as "{\\"team\\":\\"ops\\"}".' })
  .meta({
    description: `Your own key-value pairs: a JSON object, encoded as a string, at most ${maxMetadataBytes} bytes. Kept exactly as sent.`,
    example: '{"team":"ops"}',
  });

function isJsonObject(value: string): boolean {
  try {
    const parsed: unknown = JSON.parse(value);
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed);
  } catch {
    return false;
  }
}

const agentName = text({
  minLength: 1,
  maxLength: 128,
  description: 'Display name, unique within the account (case counts, after Unicode NFC).',
  example: 'research-agent',
});
const agentDescription = text({
  maxLength: 1024,
  multiline: true,
  description: 'What the agent is for.',
  example: 'Buys data sets for the research team.',
});

export const createAgentBody = z.strictObject({
  agent_name: agentName,
  chain: chainId,
  agent_description: optional(agentDescription),
  metadata: optional(metadata),
});
export type CreateAgentBody = z.output<typeof createAgentBody>;

/** What is left out stays as it is; null takes away what an agent need not have. */
export const updateAgentBody = z
  .strictObject({
    agent_name: optional(agentName),
    agent_description: agentDescription.nullable().optional(),
    metadata: metadata.nullable().optional(),
    ...freezeMembers,
  })
  .refine((given) => Object.values(given).some((value) => value !== undefined), {
    error: 'must have at least one of agent_name, agent_description, metadata and frozen.',
  })
  .refine((given) => !isReasonAlone(given), reasonAlone)
  .meta({ example: { agent_description: 'Buys data sets for the sales team.' }, minProperties: 1 });
export type UpdateAgentBody = z.output<typeof updateAgentBody>;

const status = z.enum(['active', 'inactive']);

export const setAgentStatusBody = z.strictObject({
  status: status.meta({ description: 'An inactive agent sends nothing.', example: 'inactive' }),
});

export const listAgentsQuery = z.strictObject({
  ...pageParameters,
  status: status.optional().meta({ description: 'Only agents with this status.' }),
  chain: z.string().optional().meta({ description: 'Only agents whose wallet is on this chain (CAIP-2).' }),
});

const agentId = z.string().meta({
  description: 'Identifier, `agent_…`.',
  example: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z',
});

export const agent = z
  .object({
    id: agentId,
    agent_name: z.string().meta({ example: 'research-agent' }),
    agent_description: z.string().nullable().meta({ example: 'Buys data sets for the research team.' }),
    wallet: z
      .object({
        address: z.string().meta({
          description:
            'Where the agent receives and pays from. On EVM chains the same on each of them, where the agent can pay as well; on Bitcoin (P2WPKH) and Tron of its one chain.',
          example: '0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf',
        }),
        chain: chainId,
      })
      .meta({ description: 'The wallet, whose key no single process ever holds.' }),
    status: status.meta({ description: 'An inactive agent sends nothing.', example: 'active' }),
    ...frozenMembers,
    metadata: z.string().nullable().meta({ description: 'As sent.', example: '{"team":"ops"}' }),
    created_at: instant,
  })
  .meta({ id: 'Agent' });

export const deletedAgent = z
  .object({ id: agentId, deleted: z.literal(true) })
  .meta({ id: 'DeletedAgent', description: 'What was deleted.' });

export const agentList = listOf(agent, 'Agent');
