import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { workflowNames } from '../../../shared/temporal.ts';
import { signRequestFor } from '../../support/payments.ts';
import { type SignerWorld, startSignerWorld } from '../../support/signer-world.ts';

type Key = Awaited<ReturnType<SignerWorld['newKey']>>;

let world: SignerWorld;
const keys: Key[] = [];
beforeAll(async () => {
  world = await startSignerWorld();
  keys.push(await world.newKey(), await world.newKey());
});
afterAll(() => world?.stop());

const refresh = (input: object) => world.run(workflowNames.refreshKeys, input);
const auditOf = async ({ accountId }: Key) =>
  (await world.pool.query('select * from audit_inbox where account_id = $1 order by created_at, id', [accountId])).rows;
/** Epochs of a key at each signer, `?` where it does not say. */
async function epochsOf({ keyId }: Key): Promise<string[]> {
  const answers = await world.signer.status();
  return answers.map((answer) =>
    'error' in answer
      ? '?'
      : answer.keys
          .find((key) => key.keyId === keyId)!
          .epochs.map(({ epoch }) => epoch)
          .join(),
  );
}

describe('a refresh of keys', () => {
  it('gives all keys new shares, after which all pairs sign, and tells the accounts', async () => {
    const { result, details } = await refresh({});
    expect(result).toMatchObject({ refreshed: 2, failed: 0 });
    expect(details).toBe('Refreshed 2 account keys.');
    for (const key of keys) {
      expect(await epochsOf(key)).toEqual(['2', '2', '2']);
      expect(await auditOf(key)).toMatchObject([
        { action: 'account_key.refreshed', changes: { before: { epoch: 1 }, after: { epoch: 2 } } },
      ]);
    }
    for (let index = 0; index < 3; index += 1) {
      const request = await signRequestFor(keys[0]!, { policyKey: world.signers.policyKey });
      expect(await world.signer.sign(request)).toHaveProperty('signature');
    }
  });

  it('leaves alone what is new enough', async () => {
    const { result, details } = await refresh({ olderThanDays: 30 });
    expect(result).toMatchObject({ refreshed: 0, failed: 0 });
    expect(details).toBe('Refreshed 0 account keys.');
  });

  it('is of one key where one is asked for, also completely', async () => {
    const { result } = await refresh({ keyId: keys[1]!.keyId, olderThanDays: 30, complete: true });
    expect(result).toMatchObject({ refreshed: 1 });
    expect([await epochsOf(keys[0]!), await epochsOf(keys[1]!)]).toEqual([
      ['2', '2', '2'],
      ['3', '3', '3'],
    ]);
    expect((await auditOf(keys[1]!)).at(-1)).toMatchObject({ changes: { before: { epoch: 2 }, after: { epoch: 3 } } });
  });
});
