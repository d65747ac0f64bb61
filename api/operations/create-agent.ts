import { familyOf } from '../../shared/chain/families.ts';
import type { Registry } from '../../shared/chain/registry.ts';
import { takeChildIndex } from '../../shared/db/account-keys.ts';
import { type AgentRow, findAgent, insertAgent, insertWallet, isAgentNameTaken } from '../../shared/db/agents.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { insertEvent } from '../../shared/db/events.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import type { Plan } from '../../shared/domain/plans.ts';
import { newId } from '../../shared/ids.ts';
import type { Logger } from '../../shared/log.ts';
import type { Once } from '../idempotency.ts';
import { isNameConflict, nameTaken } from '../name-taken.ts';
import { renderAgent } from '../render/agent.ts';
import { requireChain } from '../require-chain.ts';
import { requireRoom } from '../require-room.ts';
import type { CreateAgentBody } from '../schemas/agents.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';
import type { Fund } from './fund-wallet.ts';

export interface CreateAgentDependencies {
  readonly pool: Pool;
  readonly registry: Registry;
  readonly temporal: TemporalGateway;
  /** Gives a new wallet on a local chain its first coins. */
  readonly fund?: Fund | undefined;
}

interface NewAgentRequest {
  readonly accountId: string;
  readonly plan: Plan;
  readonly acting: Acting;
  readonly body: CreateAgentBody;
  readonly once: Once;
}

/**
 * Makes an agent whose wallet is the next child of the account's key.
 * The first agent of an account may wait until the signers have made that key; every other one is a database transaction.
 * @throws PurserError 400 for an unknown chain or a taken name, 403 where the plan allows no more, 503 when there is no key in time
 */
export async function createAgent(
  { pool, registry, temporal, fund }: CreateAgentDependencies,
  { log, ...request }: NewAgentRequest & { log: Logger },
): Promise<AgentRow> {
  const chain = requireChain(registry, { id: request.body.chain });
  let agent = await storeAgent(pool, request);
  if (agent === 'no_key') {
    await temporal.makeAccountKey({ accountId: request.accountId });
    agent = await storeAgent(pool, request);
  }
  if (agent === 'no_key') throw new Error(`Account ${request.accountId} has no key although it was made.`);
  if (fund && chain.network === 'local') await fund({ address: agent.address, chain: chain.id, log });
  return agent;
}

/** Ends a database transaction without effect. */
class NoAccountKey extends Error {}

/** Name, child index, agent and wallet, and what is told of them: all in one database transaction, so that a refusal uses up nothing. */
async function storeAgent(
  pool: Pool,
  { accountId, plan, acting, body, once }: NewAgentRequest,
): Promise<AgentRow | 'no_key'> {
  const family = familyOf(body.chain);
  try {
    return await inTransaction(pool, async (db) => {
      const id = newId('agent');
      await once.claim(db, { resourceId: id });
      await requireRoom(db, { accountId, plan, kind: 'agents' });
      if (await isAgentNameTaken(db, { accountId, agentName: body.agent_name })) throw nameTaken(body.agent_name);
      const key = await takeChildIndex(db, { accountId });
      if (!key) throw new NoAccountKey();
      // BIP-44 without hardened steps: a hardened child cannot be derived without the whole private key.
      const path = `m/44/${family.coinType(body.chain)}/0/0/${key.next_index}`;
      const address = family.deriveAddress({
        publicKey: key.public_key,
        chainCode: key.chain_code,
        path,
        chain: body.chain,
      });
      await insertAgent(db, {
        id,
        accountId,
        agentName: body.agent_name,
        agentDescription: body.agent_description,
        metadata: body.metadata,
        chain: body.chain,
      });
      await insertWallet(db, { id: newId('wal'), agentId: id, accountKeyId: key.id, path, address });
      const agent = (await findAgent(db, { id, accountId }))!;
      const shown = renderAgent(agent);
      const about = { accountId, agentId: id, resourceType: 'agent' as const, resourceId: id };
      await insertEvent(db, { ...about, type: 'agent.created', data: shown });
      await insertAudit(db, {
        ...about,
        action: 'agent.created',
        acting,
        result: 'success',
        changes: { before: null, after: shown },
      });
      await once.answer(db, shown);
      return agent;
    });
  } catch (error) {
    if (error instanceof NoAccountKey) return 'no_key';
    if (isNameConflict(error)) throw nameTaken(body.agent_name);
    throw error;
  }
}
