import { createRegistry, refusedChains } from '../../../shared/chain/registry.ts';
import { list, rpcUrls } from '../../../shared/config-values.ts';
import { extraToken } from '../../../shared/extra-token.ts';
import { smtpServer } from '../../../shared/mail-settings.ts';
import { type Env, variableOf } from '../../../shared/read-env.ts';
import type { Commands, WorkDependencies } from '../command.ts';
import { checkChain } from './chains.ts';
import { checkDatabase } from './database.ts';
import { checkFees } from './fees.ts';
import { type Finding, wrong } from './finding.ts';
import { checkMail, checkProvider } from './services.ts';
import { checkSettings } from './settings.ts';
import { checkState } from './state.ts';
import { checkTemporal } from './temporal.ts';

/** Looks at everything that can be looked at from here, and changes nothing. Exit status 1 where something is wrong. */
export const doctorCommands: Commands = {
  doctor: {
    options: {},
    prepare: () => async (deps) => {
      console.error('Looks at everything that the settings name; each look takes 10 s at most …');
      const findings = await examine(deps);
      const isOk = findings.every(({ status }) => status !== 'wrong');
      if (!isOk) process.exitCode = 1;
      return { ok: isOk, checks: findings };
    },
    show: (result) => render((result as { checks: readonly Finding[] }).checks),
  },
};

async function examine({ pool, config: { environment, temporal }, env }: WorkDependencies): Promise<Finding[]> {
  const smtp = smtpServer.optional().safeParse(env.PURSER_SMTP_URL || undefined);
  const groups = await Promise.all([
    checkDatabase(pool, { environment }),
    checkState(pool),
    checkTemporal(temporal),
    ...checkChains(environment, env),
    // A wrong one is told with the settings.
    smtp.success ? checkMail(smtp.data, { mustEncrypt: environment === 'production' }) : [],
    checkProvider({ issuer: env.PURSER_OIDC_ISSUER || undefined, publicUrl: env.PURSER_PUBLIC_URL || undefined }),
  ]);
  return [...checkSettings(env), ...groups.flat()];
}

function checkChains(environment: 'sandbox' | 'production', env: Env): Promise<Finding[]>[] {
  const enabled = list.parse(env.PURSER_CHAINS ?? '');
  const extra = list.pipe(extraToken.array()).safeParse(env.PURSER_EXTRA_TOKENS ?? '');
  const faults = refusedChains({ environment, enabled });
  if (faults.length > 0 || !extra.success)
    return [
      Promise.resolve([
        wrong('chains', [...faults, ...(extra.success ? [] : ['PURSER_EXTRA_TOKENS cannot be read.'])].join(' ')),
      ]),
    ];
  const registry = createRegistry({ environment, enabled, extraTokens: extra.data });
  return enabled.map((id) => {
    const variable = variableOf('PURSER_RPC', id);
    const urls = rpcUrls.safeParse(env[variable] || undefined);
    const chain = registry.chain(id)!;
    if (!urls.success || !urls.data) return checkChain(chain, undefined, variable);
    const all = Promise.all([checkChain(chain, urls.data, variable), checkFees(chain, urls.data, env)]);
    return all.then((groups) => groups.flat());
  });
}

const marks = { ok: '✓', warning: '!', wrong: '✗', not_checked: '–' } as const;

function render(checks: readonly Finding[]): string {
  const lines = checks.map(({ check, status, detail }) =>
    status === 'not_checked'
      ? `${marks[status]} ${check}: not checked: ${detail}`
      : `${marks[status]} ${check}: ${detail}`,
  );
  const faults = checks.filter(({ status }) => status === 'wrong').length;
  const warnings = checks.filter(({ status }) => status === 'warning').length;
  const also = warnings === 0 ? '' : ` ${warnings} should be looked at (!).`;
  return [
    ...lines,
    '',
    `${faults === 0 ? 'Nothing is wrong.' : `${faults} of ${checks.length} are wrong.`}${also}`,
  ].join('\n');
}
