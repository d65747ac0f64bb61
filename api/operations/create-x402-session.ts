import type { Chain, Registry, Token } from '../../shared/chain/registry.ts';
import { type AgentRow, lockAgent, lockWallet } from '../../shared/db/agents.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { heldBy, putHolds } from '../../shared/db/holds.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { insertSession, type NewSession, type SessionRow } from '../../shared/db/x402-sessions.ts';
import { formatAmount } from '../../shared/domain/money.ts';
import type { Plan } from '../../shared/domain/plans.ts';
import { readAllowedUrl } from '../../shared/domain/url-match.ts';
import { PurserError } from '../../shared/errors.ts';
import { newId } from '../../shared/ids.ts';
import { noteSession } from '../../shared/note-x402.ts';
import { renderSession } from '../../shared/render-x402.ts';
import type { Once } from '../idempotency.ts';
import { inactiveAgent, requireActiveAgent } from '../require-agent.ts';
import { requireAmount, requireToken } from '../require-amount.ts';
import { requireAgentChain } from '../require-chain.ts';
import { requireRoom } from '../require-room.ts';
import type { CreateSessionBody } from '../schemas/x402.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';

export interface CreateSessionDependencies {
  readonly pool: Pool;
  readonly registry: Registry;
  readonly temporal: Pick<TemporalGateway, 'balances' | 'startSession'>;
  readonly allowLoopback: boolean;
}

const defaultToken = 'USDC';

/**
 * Makes a session: looks at the wallet's balance, and holds the budget if so much of it has not been promised to others.
 * @throws PurserError 400 for what is wrong with the request, `insufficient_funds`; 403 where the plan allows no
 *   more; 503 where the chain cannot be asked
 */
export async function createSession(
  { pool, registry, temporal, allowLoopback }: CreateSessionDependencies,
  {
    accountId,
    plan,
    acting,
    body,
    once,
  }: { accountId: string; plan: Plan; acting: Acting; body: CreateSessionBody; once: Once },
): Promise<SessionRow> {
  const agent = await requireActiveAgent(pool, { id: body.agent_id, accountId });
  const chain = requireAuthorizing(registry, requireAgentChain(registry, { id: body.chain, agent }));
  const token = requireAuthorizable(requireToken(registry, { chain, symbol: body.token ?? defaultToken }), chain.id);
  const session: NewSession = {
    id: newId('sess'),
    accountId,
    agentId: agent.id,
    walletId: agent.wallet_id,
    chain: chain.id,
    token: token.symbol,
    asset: token.asset,
    decimals: token.decimals,
    budgetMinor: requireAmount(body.budget_limit, { token, param: 'budget_limit' }),
    allowedUrls: body.allowed_urls && readAllowedUrls(body.allowed_urls, { allowLoopback }),
    ttlSeconds: body.ttl_seconds,
  };
  const balance = await balanceOf(temporal, { agent, token, chain: chain.id });
  const row = await store(pool, { session, plan, acting, balance, once });
  await temporal.startSession(row);
  return row;
}

/** @throws PurserError 400 `invalid_chain` for one without a token that can be paid by a signed authorisation */
function requireAuthorizing(registry: Registry, chain: Chain): Chain {
  const serves = ({ tokens }: Chain) => tokens.some(isAuthorizable);
  if (serves(chain)) return chain;
  const others = registry.chains.filter(serves).map(({ id }) => id);
  const where = others.length === 0 ? 'on none of those that are served here' : `on ${others.join(', ')}`;
  throw new PurserError(
    'invalid_chain',
    `x402 cannot pay on ${chain.id}: none of its tokens is paid by a signed authorisation (EIP-3009). It can ${where}.`,
    { param: 'chain' },
  );
}

type AuthorizableToken = Token & { readonly asset: `0x${string}` };

/** @throws PurserError 400 `invalid_token` for one that cannot be paid by a signed authorisation */
function requireAuthorizable(token: Token, chain: string): AuthorizableToken {
  if (isAuthorizable(token)) return token;
  throw new PurserError(
    'invalid_token',
    `token ${token.symbol} on ${chain} cannot be paid by a signed authorisation (EIP-3009), so that x402 cannot use it.`,
    { param: 'token' },
  );
}

/** Only contracts of EVM chains have a domain of EIP-712. */
function isAuthorizable(token: Token): token is AuthorizableToken {
  return token.domain !== undefined && token.asset !== 'native';
}

function readAllowedUrls(urls: readonly string[], { allowLoopback }: { allowLoopback: boolean }): string[] {
  return urls.map((url, index) => {
    const read = readAllowedUrl(url, { allowLoopback });
    if ('url' in read) return read.url;
    throw new PurserError('invalid_request', `allowed_urls.${index} ${read.fault}`, { param: `allowed_urls.${index}` });
  });
}

interface Balance {
  readonly minor: bigint;
  readonly atBlock: number;
}

/** What the wallet holds now. @throws PurserError 503 */
async function balanceOf(
  temporal: Pick<TemporalGateway, 'balances'>,
  { agent, token, chain }: { agent: AgentRow; token: Token; chain: string },
): Promise<Balance> {
  const [answer] = await temporal.balances({ owner: agent.address, chains: [chain] });
  const read = answer && 'data' in answer ? answer.data.find((each) => each.token === token.symbol) : undefined;
  if (answer && 'data' in answer && read && 'amountMinor' in read)
    return { minor: BigInt(read.amountMinor), atBlock: answer.atBlock };
  throw new PurserError(
    'service_unavailable',
    `The balance of ${token.symbol} on ${chain} cannot be read now. Try again.`,
    { retryAfterSeconds: 2 },
  );
}

/** The session, its hold, its event and its audit entry: all in one database transaction, so that a refusal holds nothing. */
function store(
  pool: Pool,
  {
    session,
    plan,
    acting,
    balance,
    once,
  }: { session: NewSession; plan: Plan; acting: Acting; balance: Balance; once: Once },
): Promise<SessionRow> {
  const { id, accountId, agentId, walletId, chain, asset, budgetMinor } = session;
  return inTransaction(pool, async (db) => {
    await once.claim(db, { resourceId: id, isKept: true });
    await requireRoom(db, { accountId, plan, kind: 'x402Sessions' });
    const agent = await lockAgent(db, { id: agentId });
    if (agent?.status !== 'active') throw inactiveAgent(agentId);
    await lockWallet(db, { id: walletId });
    const held = await heldBy(db, { walletId, chain, asset, atBlock: balance.atBlock });
    if (balance.minor - held < budgetMinor) throw insufficientFunds(session, { balance, held });
    const row = await insertSession(db, session);
    await putHolds(db, { ownerId: id, walletId, chain, holds: [{ asset, amountMinor: budgetMinor }] });
    await noteSession(db, { id, type: 'x402.session.created' });
    const shown = renderSession(row);
    await insertAudit(db, {
      accountId,
      agentId,
      action: 'x402_session.created',
      acting,
      resourceType: 'x402_session',
      resourceId: id,
      result: 'success',
      changes: { before: null, after: shown },
    });
    await once.answer(db, shown);
    return row;
  });
}

function insufficientFunds(
  { budgetMinor, token, decimals }: NewSession,
  { balance, held }: { balance: Balance; held: bigint },
): PurserError {
  const write = (minor: bigint) => formatAmount(minor, decimals);
  const available = write(balance.minor > held ? balance.minor - held : 0n);
  const attempted = write(budgetMinor);
  return new PurserError(
    'insufficient_funds',
    `The wallet holds ${write(balance.minor)} ${token}, of which ${write(held)} are held for payments and sessions under way; a budget of ${attempted} cannot be held.`,
    { param: 'budget_limit', details: { attempted, available, reserved: write(held), token } },
  );
}
