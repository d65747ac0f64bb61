import { createChainAdapter } from '../../../shared/chain/create-adapter.ts';
import type { Chain } from '../../../shared/chain/registry.ts';
import { formatAmount } from '../../../shared/domain/money.ts';
import { readFees } from '../../../shared/fee-settings.ts';
import type { Env } from '../../../shared/read-env.ts';
import { type Finding, look, ok, warning, wrong } from './finding.ts';

/** More than any chain asks: what a transfer would cost without a ceiling. */
const noCeiling = 10n ** 18n;

/**
 * What a usual transfer of a token costs now, against the ceiling that is set or the chain's own: above it payments wait.
 * Bitcoin has no usual transfer.
 */
export async function checkFees(chain: Chain, urls: readonly string[], env: Env): Promise<Finding[]> {
  if (chain.family === 'bitcoin') return [];
  const check = `fees on ${chain.id}`;
  return [
    await look(check, 'Look at the nodes of the chain first.', async () => {
      const ceiling = readFees(env, [chain.id]).maxFee[chain.id];
      const costOf = (maxFee: bigint | undefined) =>
        createChainAdapter({ chain, urls: [...urls], maxFee }).transferFee();
      const [free, capped] = await Promise.all([costOf(noCeiling), costOf(ceiling)]);
      const { symbol, decimals } = chain.tokens[0]!;
      const write = (minor: bigint) => `${formatAmount(minor, decimals)} ${symbol}`;
      if (free === undefined || capped === undefined || capped >= free)
        return ok(check, `a transfer of a token costs ${write(free ?? 0n)} at most, below the ceiling`);
      const variable = chain.family === 'tron' ? 'PURSER_MAX_FEE_TRX' : 'PURSER_MAX_FEE_GWEI';
      const said = `a transfer of a token costs up to ${write(free)} now, and the ceiling lets it cost ${write(capped)}`;
      const raise = `Raise ${variable}_… of the chain, or wait until fees are lower.`;
      // What payments offer on EVM chains has room for base fees that double: half of it is what the next block takes.
      return chain.family === 'tron' || capped * 2n < free
        ? wrong(check, `${said}: payments wait. ${raise}`)
        : warning(check, `${said}: payments are sent, with little room for fees that rise. ${raise}`);
    }),
  ];
}
