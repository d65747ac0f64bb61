import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { freezeAndNote, unfreezeAndNote } from '../../shared/change-freeze.ts';
import { byOperator } from '../../shared/db/audit.ts';
import { type FreezeSubject, findAccountOfAgent, listFreezes, readFreezes } from '../../shared/db/freezes.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { type FreezeProgress, signersToFreeze } from '../../shared/domain/freeze-progress.ts';
import { renderFreeze } from '../../shared/render-freeze.ts';
import { tellAccounts } from '../../shared/tell-accounts.ts';
import { operatorName } from '../operator-name.ts';
import { noReason } from '../schemas/freeze.ts';
import { UsageError } from '../usage-error.ts';
import type { Command, Commands, Work } from './command.ts';
import { accountOption, idOption, reasonOption, requireAccount } from './options.ts';
import { withGateway } from './with-gateway.ts';

/** How long the signers are waited for unless told otherwise, and at most. */
const defaultWaitSeconds = 30;
const maxWaitSeconds = 3_600;
const allSigners = [1, 2, 3];
/** How long the third signer is waited for where two have confirmed: nothing is signed without one of these. */
const thirdWaitMs = 3_000;
const pollMs = 100;
/** How often it is said that the signers are still waited for. */
const sayEveryMs = 5_000;
/** Freezes that `frozen` lists at most, the newest. */
const maxListed = 1_000;
/** Accounts that a freeze of everything tells before it answers. */
const toldAtOnce = 500;

const subjects = {
  all: { id: z.undefined().optional(), subjectOf: async (): Promise<FreezeSubject> => ({ scope: 'installation' }) },
  account: {
    id: accountOption('--id'),
    async subjectOf(pool: Pool, id: string): Promise<FreezeSubject> {
      await requireAccount(pool, { id });
      return { scope: 'account', accountId: id };
    },
  },
  agent: {
    id: idOption('--id', { prefix: 'agent', what: 'agent' }),
    async subjectOf(pool: Pool, id: string): Promise<FreezeSubject> {
      const accountId = await findAccountOfAgent(pool, { id });
      if (accountId === undefined) throw new UsageError(`There is no agent ${id}.`);
      return { scope: 'agent', accountId, agentId: id };
    },
  },
} as const;
type What = keyof typeof subjects;

const wait = z
  .string()
  .regex(/^\d{1,4}$/, { error: `--wait must be whole seconds, ${maxWaitSeconds} at most.` })
  .transform(Number)
  .refine((seconds) => seconds <= maxWaitSeconds, { error: `--wait must be ${maxWaitSeconds} seconds at most.` })
  .default(defaultWaitSeconds);
const reason = reasonOption('why; whoever reads that something is frozen reads it').default(noReason);

/**
 * Stops signatures, of everything or of an account or an agent, and waits until the three signers know it.
 * The freeze counts as soon as it is stored: nothing is allowed to be signed after that. Signers refuse besides what was
 * allowed shortly before.
 */
function change(verb: 'freeze' | 'unfreeze', what: What): Command {
  const isFreeze = verb === 'freeze';
  const idHint = { all: {}, account: { id: 'acct_…' }, agent: { id: 'agent_…' } }[what];
  return {
    options: { ...idHint, ...(isFreeze && { reason: 'TEXT' }), wait: 'SECONDS' },
    required: what === 'all' ? [] : ['id'],
    prepare(values): Work {
      const { id, reason: why, wait: waitSeconds } = z.object({ id: subjects[what].id, reason, wait }).parse(values);
      return async ({ pool, config }) => {
        const subject = await subjects[what].subjectOf(pool, id ?? '');
        const acting = byOperator(operatorName());
        const row = await inTransaction(pool, (db) =>
          isFreeze
            ? freezeAndNote(db, { ...subject, reason: why, acting })
            : unfreezeAndNote(db, { ...subject, acting }),
        );
        const { version } = await readFreezes(pool);
        const lost = 'Temporal was not told; the workers tell the signers by themselves within 15 seconds.';
        const signers = await withGateway(config, { lost }, async (gateway) => {
          await gateway.tellFreeze();
          return waitForSigners(pool, { version, waitSeconds, freezeProgress: gateway.freezeProgress });
        });
        // Of thousands the workers tell the rest: whoever freezes at night must not wait for that.
        await tellAccounts(pool, { atMost: toldAtOnce });
        const { confirmed } = signers;
        const isDone = confirmed.length >= signersToFreeze;
        if (!isDone && waitSeconds > 0) process.exitCode = 1;
        const freeze = row ? { ...named(row), ...renderFreeze(row) } : null;
        const next = row || isFreeze ? nextOf({ isFreeze, isDone }) : 'There was nothing to lift.';
        return { [isFreeze ? 'frozen' : 'unfrozen']: freeze, signers, next };
      };
    },
  };
}

export const freezeCommands: Commands = {
  'freeze all': change('freeze', 'all'),
  'freeze account': change('freeze', 'account'),
  'freeze agent': change('freeze', 'agent'),
  'unfreeze all': change('unfreeze', 'all'),
  'unfreeze account': change('unfreeze', 'account'),
  'unfreeze agent': change('unfreeze', 'agent'),
  frozen: {
    options: {},
    prepare:
      () =>
      async ({ pool }) => {
        const { version, told } = await readFreezes(pool);
        const { freezes, total } = await listFreezes(pool, { limit: maxListed });
        const frozen = freezes.map((row) => ({ ...named(row), ...renderFreeze(row) }));
        return { frozen, total, signers_told: told >= version };
      },
  },
};

/** What is known of the signers: those that have the word on disk, and why others have not. */
type Told = Pick<FreezeProgress, 'confirmed' | 'missing'>;

/** Waits until all three signers have confirmed what is frozen; where two have, for the third only a little. */
async function waitForSigners(
  pool: Pool,
  {
    version,
    waitSeconds,
    freezeProgress,
  }: { version: number; waitSeconds: number; freezeProgress: () => Promise<FreezeProgress | undefined> },
): Promise<Told> {
  const startedAt = performance.now();
  let told: Told = { confirmed: [], missing: [] };
  for (let saidAt = startedAt; ; ) {
    if ((await readFreezes(pool)).told >= version) return { confirmed: [...allSigners], missing: [] };
    const elapsedMs = performance.now() - startedAt;
    const progress = waitSeconds > 0 ? await freezeProgress() : undefined;
    if (progress && progress.version >= version) told = progress;
    const isEnough = told.confirmed.length >= signersToFreeze && elapsedMs >= thirdWaitMs;
    if (isEnough || elapsedMs >= waitSeconds * 1_000) return { confirmed: told.confirmed, missing: told.missing };
    if (performance.now() - saidAt >= sayEveryMs) {
      console.error(`Waiting for the signers: ${told.confirmed.length} of ${allSigners.length} have confirmed it.`);
      saidAt = performance.now();
    }
    await sleep(pollMs);
  }
}

function nextOf({ isFreeze, isDone }: { isFreeze: boolean; isDone: boolean }): string {
  if (isDone) return isFreeze ? 'Nothing new is signed.' : 'Payments go on within seconds.';
  const rest = 'They are told as soon as they answer. npm run signers -- status says how they are.';
  return isFreeze
    ? `No payment is allowed any more. Fewer than two signers have confirmed it: what was allowed in the last ten minutes may still be signed. ${rest}`
    : `Fewer than two signers have confirmed it, and go on refusing until they do. ${rest}`;
}

const named = ({ account_id, agent_id }: { account_id: string | null; agent_id: string | null }) => ({
  account_id,
  agent_id,
});
