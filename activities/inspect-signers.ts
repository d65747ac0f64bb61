import type { SignerLook } from '../shared/domain/signer-alerts.ts';
import type { WatchSignersInput } from '../shared/temporal.ts';
import type { SignerClient } from '../signer/client.ts';
import { judgeSigners } from './judge-signers.ts';
import { readSignerReport } from './signer-report.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Looks at what each signer holds, and says what is wrong. A signer that does not answer is a finding, and no error. */
export function createInspectSigners({
  signer,
  clock = () => new Date(),
}: {
  signer: SignerClient;
  clock?: () => Date;
}) {
  return async function inspectSigners(wanted: WatchSignersInput): Promise<SignerLook> {
    const answers = await withHeartbeat(() => signer.status());
    return judgeSigners(answers.map(readSignerReport), { ...wanted, now: clock() });
  };
}
