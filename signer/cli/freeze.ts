import { signersToFreeze } from '../../shared/domain/freeze-progress.ts';
import { FREEZE_REASON_MAX } from '../freeze.ts';
import { type Command, type CommandContext, UsageError } from './command.ts';
import { reportSigners } from './owner.ts';

export const freezeCommands: Readonly<Record<string, Command>> = {
  freeze: {
    summary:
      'Has every signer sign nothing new, whatever api, workers and database say: for when they are away, or were taken over. What was signed is given again; keys are made and refreshed as before. Lasts until unfreeze. Ends with 1 unless all three took it; two are enough to stop signing.',
    usage: '--reason TEXT',
    options: { reason: { type: 'string' } },
    run: (context) => tellAll(context, readReason(context.values.reason as string | undefined)),
  },
  unfreeze: {
    summary:
      'Lifts what freeze has set here, and nothing else: what is frozen by npm run admin -- freeze, or by an account, stays so. Ends with 1 unless all three took it.',
    usage: '',
    options: {},
    run: (context) => tellAll(context, null),
  },
};

async function tellAll({ connect, tell }: CommandContext, reason: string | null): Promise<object> {
  const answers = await (await connect()).askEach<object>({ path: '/v1/operator-freeze', body: { reason } });
  const signers = reportSigners(answers, tell);
  const took = signers.filter(({ error }) => error === undefined).length;
  if (reason !== null && took < signersToFreeze)
    tell(`payments can still be signed: only ${took} of the signers took it`);
  if (took < signers.length) tell('run the same command again when the others answer: a signer forgets neither');
  return { frozen: reason !== null, ...(reason !== null && { reason }), signers };
}

function readReason(text: string | undefined): string {
  const reason = text?.trim() ?? '';
  if (reason.length >= 1 && reason.length <= FREEZE_REASON_MAX) return reason;
  throw new UsageError(
    `--reason must say why, in 1 to ${FREEZE_REASON_MAX} characters: npm run signers -- status shows it`,
  );
}
