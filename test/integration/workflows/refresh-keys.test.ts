import { ApplicationFailure } from '@temporalio/common';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSigningActivities } from '../../../activities/signing.ts';
import { workflowNames } from '../../../shared/temporal.ts';
import { eventually } from '../../support/client.ts';
import { signRequestFor } from '../../support/payments.ts';
import { type SignerWorld, startSignerWorld } from '../../support/signer-world.ts';

type Key = Awaited<ReturnType<SignerWorld['newKey']>>;

let world: SignerWorld;
let key: Key;
beforeAll(async () => {
  world = await startSignerWorld();
  key = await world.newKey();
}, 300_000);
afterAll(() => world?.stop());

const refresh = (input: object) => world.run(workflowNames.refreshKeys, input);
const entries = async () =>
  (await world.pool.query('select * from audit_inbox where account_id = $1 order by created_at, id', [key.accountId]))
    .rows;
/** Epochs of the key at each signer, `?` where it does not say. */
async function epochs(): Promise<string[]> {
  const answers = await world.signer.status();
  return answers.map((answer) =>
    'error' in answer
      ? '?'
      : answer.keys
          .find(({ keyId }) => keyId === key.keyId)!
          .epochs.map((each) => each.epoch)
          .join(),
  );
}

describe('a refresh of keys', () => {
  it('gives keys new shares, after which all pairs sign, and tells the accounts', { timeout: 180_000 }, async () => {
    const { result, details } = await refresh({});
    expect(result).toMatchObject({ refreshed: 1, failed: 0 });
    expect(details).toBe('Refreshed 1 account keys.');
    expect(await epochs()).toEqual(['2', '2', '2']);
    expect(await entries()).toMatchObject([
      { action: 'account_key.refreshed', changes: { before: { epoch: 1 }, after: { epoch: 2 } } },
    ]);
    for (let index = 0; index < 3; index += 1) {
      const request = await signRequestFor(key, { policyKey: world.signers.policyKey });
      expect(await world.signer.sign(request)).toHaveProperty('signature');
    }
  });

  it('leaves alone what is new enough, unless it is asked for by name', { timeout: 180_000 }, async () => {
    expect(await refresh({ olderThanDays: 30 })).toMatchObject({
      ...{ result: { refreshed: 0, failed: 0 }, details: 'Refreshed 0 account keys.' },
    });
    expect((await refresh({ keyId: key.keyId, complete: true })).result).toMatchObject({ refreshed: 1 });
    expect(await epochs()).toEqual(['3', '3', '3']);
    expect((await entries()).at(-1)).toMatchObject({ changes: { before: { epoch: 2 }, after: { epoch: 3 } } });
  });

  it('waits for a signer that is away', { timeout: 180_000 }, async () => {
    await world.signers.kill(3);
    const handle = await world.client.workflow.start(workflowNames.refreshKeys, {
      ...{ workflowId: 'waits', taskQueue: 'wallet', args: [{ keyId: key.keyId }] },
    });
    await eventually(
      async () => (await handle.describe()).raw.pendingActivities?.[0]?.lastFailure?.message,
      (why) => why?.startsWith('signer 3') ?? false,
    );
    await world.signers.restart(3);
    expect(await handle.result()).toMatchObject({ refreshed: 1 });
    expect(await epochs()).toEqual(['4', '4', '4']);
  });
});

/** Doubles of the signers, who cannot be had with so many keys, nor failing in just these ways. */
describe('a refresh of many keys', () => {
  const due = (index: number) => `ckey_${String(index).padStart(4, '0')}`;
  let asked: string[] = [];
  afterAll(() => world?.serveSigning());

  async function serve(count: number, outcome: (keyId: string) => void = () => {}): Promise<void> {
    const all = Array.from({ length: count }, (_, index) => due(index));
    asked = [];
    await world.serveSigning({
      ...createSigningActivities({ signer: world.signer }),
      listDueKeys: async ({ after, limit }) => ({
        keyIds: all.filter((id) => id > after).slice(0, limit),
        forOperator: 0,
      }),
      refreshKey: async ({ keyId }) => {
        asked.push(keyId);
        outcome(keyId);
        return { epoch: 2 };
      },
    });
  }
  const fails = (type: string) => {
    throw ApplicationFailure.nonRetryable(`no shares: ${type}`, type);
  };
  const failure = async () => {
    const error = await refresh({}).catch((reason: unknown) => reason);
    return (error as { cause: ApplicationFailure }).cause;
  };

  it('goes on in another run where one would be too long, and takes each key once', { timeout: 180_000 }, async () => {
    await serve(205);
    expect((await refresh({})).result).toMatchObject({ refreshed: 205, failed: 0 });
    expect(asked).toEqual(Array.from({ length: 205 }, (_, index) => due(index)));
  });

  it('leaves out what cannot be refreshed, does the rest, and says so in the end', async () => {
    await serve(4, (keyId) => keyId === due(1) && fails('RefreshBlocked'));
    expect(await failure()).toMatchObject({
      type: 'RefreshFailed',
      message: `Refreshed 3 account keys. 1 could not be refreshed.\n- ${due(1)}: no shares: RefreshBlocked`,
    });
    expect(asked).toHaveLength(4);
  });

  it('stops where keys fail one after another', async () => {
    await serve(9, (keyId) => keyId !== due(1) && fails('RefreshBlocked'));
    expect((await failure()).message).toMatch(/^Refreshed 1 account keys\. 4 to go\. 4 could not be refreshed\./);
    expect(asked).toHaveLength(5);
  });

  it('stops at once where a signer is at fault, and does not try the key again', async () => {
    await serve(3, () => fails('SignerFault'));
    expect((await failure()).message).toMatch(/^Refreshed 0 account keys\. 2 to go\. 1 could not be refreshed\./);
    expect(asked).toEqual([due(0)]);
  });
});
