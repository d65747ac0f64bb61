import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { freezeAndNote, unfreezeAndNote } from '../../shared/change-freeze.ts';
import { byOperator } from '../../shared/db/audit.ts';
import { type FreezeSubject, findAccountOfAgent, listFreezes, readFreezes } from '../../shared/db/freezes.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
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
const pollMs = 100;
/** How often it is said that the signers are still waited for. */
const sayEveryMs = 5_000;
/** Freezes that `frozen` lists at most. */
const maxListed = 1_000;

const subjects = {
  all: { id: z.undefined(), subjectOf: async (): Promise<FreezeSubject> => ({ scope: 'installation' }) },
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
        await withGateway(config, { lost }, ({ tellFreeze }) => tellFreeze());
        const told = await signersTold(pool, { version, waitSeconds });
        await tellAccounts(pool);
        if (!told && waitSeconds > 0) process.exitCode = 1;
        const freeze = row ? { ...named(row), ...renderFreeze(row) } : null;
        return {
          [isFreeze ? 'frozen' : 'unfrozen']: freeze,
          signers_told: told,
          next: nextOf({ isFreeze, told, row }),
        };
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
        const rows = await listFreezes(pool, { limit: maxListed });
        return { frozen: rows.map((row) => ({ ...named(row), ...renderFreeze(row) })), signers_told: told >= version };
      },
  },
};

/** Waits until all three signers have confirmed what is frozen. @returns whether they have */
async function signersTold(
  pool: Pool,
  { version, waitSeconds }: { version: number; waitSeconds: number },
): Promise<boolean> {
  const startedAt = performance.now();
  for (let saidAt = startedAt; ; ) {
    if ((await readFreezes(pool)).told >= version) return true;
    const now = performance.now();
    if (now - startedAt >= waitSeconds * 1_000) return false;
    if (now - saidAt >= sayEveryMs) {
      console.error('Waiting until all three signers have confirmed it.');
      saidAt = now;
    }
    await sleep(pollMs);
  }
}

function nextOf({ isFreeze, told, row }: { isFreeze: boolean; told: boolean; row: unknown }): string {
  if (!row) return 'There was nothing to lift.';
  if (told) return isFreeze ? 'Nothing new is signed.' : 'Payments go on within seconds.';
  const which = 'npm run signers -- status says which of them do not know it';
  return isFreeze
    ? `No payment is allowed any more. Not all signers have confirmed it: those that have not may still sign what was allowed in the last ten minutes, if two of them are told by nobody. They are told as soon as they answer; ${which}.`
    : `Not all signers have confirmed it: those that have not go on refusing. They are told as soon as they answer; ${which}.`;
}

const named = ({ account_id, agent_id }: { account_id: string | null; agent_id: string | null }) => ({
  account_id,
  agent_id,
});
