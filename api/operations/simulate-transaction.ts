import type { PrepareResult } from '../../shared/chain/adapter.ts';
import type { Asset, Registry, Token } from '../../shared/chain/registry.ts';
import type { AgentRow } from '../../shared/db/agents.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { currentFreeze, type FreezeRow } from '../../shared/db/freezes.ts';
import { heldBy } from '../../shared/db/holds.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { describeFreeze } from '../../shared/domain/describe-freeze.ts';
import { formatAmount, parseAmount } from '../../shared/domain/money.ts';
import type { Evaluation, Finding } from '../../shared/domain/policy/engine.ts';
import type { Violation } from '../../shared/domain/policy/types.ts';
import { judgePayment } from '../../shared/judge-payment.ts';
import type { Logger } from '../../shared/log.ts';
import { requireActiveAgent } from '../require-agent.ts';
import type { CreateTransactionBody } from '../schemas/transactions.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';
import { type ResolvedPayment, resolvePayment } from './resolve-payment.ts';

export interface SimulateTransactionDependencies {
  readonly pool: Pool;
  readonly registry: Registry;
  readonly temporal: TemporalGateway;
}

interface Warning {
  readonly code: string;
  readonly policy_id: string | null;
  readonly message: string;
}

/**
 * Says what would become of a payment, without any effect: policies and usage are read as of one moment, in a database
 * transaction that cannot write, and the chain is asked what it would cost.
 * @throws PurserError 400 for everything that a real request would be refused for before it is judged
 */
export async function simulateTransaction(
  { pool, registry, temporal }: SimulateTransactionDependencies,
  { accountId, body, log }: { accountId: string; body: CreateTransactionBody; log: Logger },
) {
  const agent = await requireActiveAgent(pool, { id: body.agent_id, accountId });
  const payment = resolvePayment(registry, { agent, body });
  const native = registry.nativeToken(payment.chain);
  const { chain, fromAddress: from, toAddress: to, amountMinor, token: symbol, asset, decimals } = payment;
  const token: Token = { symbol, asset, decimals };
  const [{ decision, findings, freeze }, quoted] = await Promise.all([
    judgeOnly(pool, { agent, payment }),
    temporal.quote({ chain, from, to, token, amountMinor: amountMinor.toString() }, { log }),
  ]);
  const outcome = await chainSays(pool, { agent, payment, native, quoted });
  const violations = [...decision.violations, ...outcome.violations];
  const isRefused = violations.length > 0 || outcome.warnings.some(({ code }) => code === 'simulation_failed');
  return {
    // One that is frozen is taken and waits: it is not sent as things stand.
    allowed: !isRefused && !freeze && decision.outcome === 'allow',
    decision: violations.length > 0 ? ('deny' as const) : decision.outcome,
    violations,
    headroom: headroomOf(findings),
    estimated_fee: outcome.fee,
    warnings: [...decision.warnings, ...outcome.warnings, ...(freeze ? [wouldWait(freeze)] : [])],
  };
}

/** What policies say, and what is frozen, as of one moment. */
function judgeOnly(
  pool: Pool,
  { agent, payment }: { agent: AgentRow; payment: ResolvedPayment },
): Promise<Evaluation & { freeze: FreezeRow | undefined }> {
  return inTransaction(pool, async (db) => {
    await db.query('set transaction isolation level repeatable read read only');
    const evaluation = await judgePayment(db, { agentId: agent.id, payment, now: await databaseClock(db) });
    const freeze = await currentFreeze(db, { accountId: agent.account_id, agentId: agent.id });
    return { ...evaluation, freeze };
  });
}

/** A payment that is asked for while something is frozen is taken, and goes on when that is lifted. */
function wouldWait(freeze: FreezeRow): Warning {
  return { code: 'frozen', policy_id: null, message: `${describeFreeze(freeze)} A payment would wait for that.` };
}

/** What the chain's answer means: the fee, too little money, or a transfer that would fail. */
async function chainSays(
  pool: Pool,
  {
    agent,
    payment,
    native,
    quoted,
  }: { agent: AgentRow; payment: ResolvedPayment; native: Token; quoted: PrepareResult | undefined },
): Promise<{ fee: string | null; violations: Violation[]; warnings: Warning[] }> {
  const nothing = { fee: null, violations: [], warnings: [] };
  if (!quoted) {
    const message = `${payment.chain} gives no usable answer now: neither fee nor balance were looked at.`;
    return { ...nothing, warnings: [{ code: 'chain_unavailable', policy_id: null, message }] };
  }
  if (quoted.outcome === 'failed') {
    if (quoted.code === 'simulation_failed')
      return { ...nothing, warnings: [{ code: quoted.code, policy_id: null, message: quoted.message }] };
    const { token: symbol, balance = '0', required = '0', max_fee: fee = null } = quoted.details;
    const token = symbol === payment.token ? payment : { ...native, token: native.symbol };
    const read = (written: string) => {
      const minor = parseAmount(written, token.decimals);
      return typeof minor === 'bigint' ? minor : 0n;
    };
    const need = { ...token, minor: read(required), balance: read(balance), atBlock: quoted.atBlock ?? 0 };
    return { ...nothing, fee, violations: await shortages(pool, { agent, chain: payment.chain, needs: [need] }) };
  }
  const { atBlock, maxFeeMinor, balanceMinor, nativeBalanceMinor } = quoted;
  const fee = { ...native, token: native.symbol, minor: BigInt(maxFeeMinor), balance: BigInt(nativeBalanceMinor) };
  const { token, asset, decimals, amountMinor: minor } = payment;
  // Amount and fee in one coin are needed together.
  const needs =
    asset === 'native'
      ? [{ ...fee, minor: minor + fee.minor, atBlock }]
      : [
          { token, asset, decimals, minor, balance: BigInt(balanceMinor), atBlock },
          { ...fee, atBlock },
        ];
  return {
    ...nothing,
    fee: formatAmount(fee.minor, native.decimals),
    violations: await shortages(pool, { agent, chain: payment.chain, needs }),
  };
}

/** What a payment takes out of a wallet in one asset, and what the wallet held as of a block. */
interface Need {
  readonly token: string;
  readonly asset: Asset;
  readonly decimals: number;
  readonly minor: bigint;
  readonly balance: bigint;
  readonly atBlock: number;
}

/** Needs that balances less what other payments hold do not cover. */
async function shortages(
  pool: Pool,
  { agent, chain, needs }: { agent: AgentRow; chain: string; needs: readonly Need[] },
): Promise<Violation[]> {
  const violations: Violation[] = [];
  for (const { token, asset, decimals, minor, balance, atBlock } of needs) {
    const held = await heldBy(pool, { walletId: agent.wallet_id, chain, asset, atBlock });
    if (balance - held >= minor) continue;
    const write = (value: bigint) => formatAmount(value, decimals);
    const available = write(balance > held ? balance - held : 0n);
    violations.push({
      policy_id: null,
      policy_type: null,
      rule: 'balance',
      limit: available,
      attempted: write(minor),
      used: write(held),
      remaining: available,
      token,
      resets_at: null,
    });
  }
  return violations;
}

/** Every limit that applied, by policy and rule. */
function headroomOf(findings: readonly Finding[]) {
  const headroom: Record<
    string,
    Record<string, Pick<Finding, 'limit' | 'used' | 'remaining' | 'token' | 'resets_at'>>
  > = {};
  for (const { policy_id, rule, limit, used, remaining, token, resets_at } of findings) {
    if (policy_id === null) continue;
    headroom[policy_id] = { ...headroom[policy_id], [rule]: { limit, used, remaining, token, resets_at } };
  }
  return headroom;
}
