import type { FreezeProgress } from '../shared/domain/freeze-progress.ts';
import type { SignerClient } from '../signer/client.ts';
import type { FreezeOrder } from './read-freeze-order.ts';

/** A signer that takes longer is told again; the two others have their word by then. */
const timeoutMs = 2_000;
/** Longest text of a signer that is passed on, in characters. */
const maxErrorLength = 200;

/** Tells each of the three signers what is frozen. One that does not take it is part of the answer, and no error. */
export function createTellSigners({ signer }: { signer: SignerClient }) {
  return async function tellSigners({ version, order }: FreezeOrder): Promise<FreezeProgress> {
    const answers = await signer.askEach<{ version: number }>({ path: '/v1/freeze', body: { order }, timeoutMs });
    const confirmed: number[] = [];
    const missing: { party: number; error: string }[] = [];
    for (const answer of answers) {
      const { party } = answer;
      if ('error' in answer) missing.push({ party, error: String(answer.error).slice(0, maxErrorLength) });
      else if (answer.version === version) confirmed.push(party);
      else missing.push({ party, error: otherVersion(party, { told: version, known: answer.version }) });
    }
    return { version, confirmed, missing };
  };
}

/** Signers remember what a database that was restored has lost; what was frozen there stays so until somebody says otherwise. */
function otherVersion(party: number, { told, known }: { told: number; known: number }): string {
  return `signer ${party} keeps to version ${known} and not ${told}: the database is from before that. Freeze or unfreeze once more.`;
}
