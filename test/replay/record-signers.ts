// `node test/replay/record-signers.ts`: as record.ts, for the workflows that look after the signers. Run it once an
// account has its key; alerts are told once a signer was stopped for more than five minutes.
import { alertMailWorkflowId, workflowNames } from '../../shared/temporal.ts';
import { connection, save, temporal } from './recorder.ts';

const run = (name: string, workflowId: string, input: object) =>
  temporal.workflow.execute(name, { workflowId, taskQueue: 'wallet', args: [input] });

await run(workflowNames.refreshKeys, 'recorded-refresh', {});
await save('refresh-keys', 'recorded-refresh');
await run(workflowNames.watchSigners, 'recorded-watch', { refreshDays: 30, wantsBackups: false });
await save('watch-signers', 'recorded-watch');
await save('signer-alert-mail', alertMailWorkflowId);
await connection.close();
