import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  ActivityFailure,
  ApplicationFailure,
  isCancellation,
  log,
  ParentClosePolicy,
  setCurrentDetails,
  startChild,
} from '@temporalio/workflow';
import type { NotedLook } from '../activities/note-signer-look.ts';
import { alertKinds, type SignerLook } from '../shared/domain/signer-alerts.ts';
import { alertMailWorkflowId, type WatchSignersInput } from '../shared/temporal.ts';
import { inspectSigners, noteSignerLook, sendAlertMail } from './proxies.ts';

/** One run of the schedule: what is wrong with the signers, in words; whoever is to know is told of what is new. */
export async function watchSigners(wanted: WatchSignersInput): Promise<SignerLook> {
  const look = await lookAtSigners(wanted);
  const noted = await noteSignerLook(look);
  setCurrentDetails(describe(look, noted));
  // Beside this run: a mail server that is away keeps nobody from looking.
  if (noted.isUntold)
    await startChild(signerAlertMail, {
      workflowId: alertMailWorkflowId,
      parentClosePolicy: ParentClosePolicy.ABANDON,
      staticSummary: 'Tells operators by mail what is wrong with the signers, and what is no longer',
    }).catch((error: unknown) => {
      // The one that runs reads what there is to tell whenever it tries.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    });
  return look;
}

/** Where nobody looks at the signers, that is what is wrong, and nothing that was found before is over. */
async function lookAtSigners(wanted: WatchSignersInput): Promise<SignerLook> {
  try {
    return await inspectSigners(wanted);
  } catch (error) {
    if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error;
    log.warn('nobody looks at the signers', { error: String(error.cause) });
    const said = error.cause instanceof ApplicationFailure ? `: ${error.cause.message.slice(0, 200)}` : '';
    return {
      findings: [
        {
          ...{ kind: 'signers_unwatched', party: null, keyId: null },
          detail: `no worker of queue wallet-signing gave an account of them${said}`,
        },
      ],
      unsure: alertKinds.filter((kind) => kind !== 'signers_unwatched'),
      answering: 0,
      keys: 0,
    };
  }
}

function describe({ answering, keys }: SignerLook, { open, named }: NotedLook): string {
  const sentences = `${answering} of 3 signers answer; they hold ${keys} account keys.`;
  if (open === 0) return `${sentences} Nothing is wrong that has lasted.`;
  const rest = open > named.length ? [`${open - named.length} more are in table signer_alerts.`] : [];
  return [`${sentences} Open alerts: ${open}.`, ...named.map((line) => `- ${line}`), ...rest].join('\n');
}

/** Tells operators, a mail at a time, until there is nothing left to tell. */
export async function signerAlertMail(): Promise<void> {
  let told = 0;
  for (let more = await sendAlertMail(); more > 0; more = await sendAlertMail()) {
    told += more;
    setCurrentDetails(`Told of ${told} alerts.`);
  }
}
