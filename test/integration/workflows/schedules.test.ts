import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { workflowNames } from '../../../shared/temporal.ts';
import { ensureSchedules } from '../../../worker/schedules.ts';
import { eventually } from '../../support/client.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';

let temporal: OwnTemporal;
let connection: Connection;
let client: Client;

beforeAll(async () => {
  temporal = await startOwnTemporal();
  connection = await Connection.connect({ address: temporal.address });
  client = new Client({ connection });
});
afterAll(async () => {
  await connection?.close();
  await temporal?.stop();
});

const gas = { gasCheckMinutes: 5, chains: ['eip155:31337'] };
const stateOf = async (id: string) => (await client.schedule.getHandle(id).describe()).state;
const argsOf = async (id: string) => {
  const { action } = await client.schedule.getHandle(id).describe();
  return action.args;
};

describe('the schedules', () => {
  it('are all there, each with a workflow and a summary in words, also when several workers start at once', async () => {
    await Promise.all(
      [1, 2, 3].map(() => ensureSchedules(client, { keyRefreshDays: 30, environment: 'sandbox', ...gas })),
    );
    const ids = ['check-limits', 'maintenance', 'reconcile', 'refresh-keys', 'watch-gas', 'watch-signers'];
    for (const id of ids) {
      const { action, spec, policies } = await client.schedule.getHandle(id).describe();
      expect(Object.values(workflowNames)).toContain(action.workflowType);
      expect(action).toMatchObject({ workflowId: id, taskQueue: 'wallet', staticSummary: expect.stringMatching(/ /) });
      expect(spec.intervals).toHaveLength(1);
      expect(policies.overlap).toBe('SKIP');
    }
    const listed = async () => {
      const found: string[] = [];
      for await (const { scheduleId } of client.schedule.list()) found.push(scheduleId);
      return found.sort();
    };
    expect(await eventually(listed, (found) => found.length >= ids.length)).toEqual(ids);
  });

  it('look at the signers each minute, and have keys refreshed each day, as the configuration says', async () => {
    await ensureSchedules(client, { keyRefreshDays: 7, environment: 'sandbox', ...gas });
    expect(await argsOf('watch-signers')).toEqual([{ refreshDays: 7, wantsBackups: false }]);
    expect(await argsOf('refresh-keys')).toEqual([{ olderThanDays: 7 }]);
    await ensureSchedules(client, { keyRefreshDays: 7, environment: 'production', ...gas });
    expect(await argsOf('watch-signers')).toEqual([{ refreshDays: 7, wantsBackups: true }]);
    const { spec } = await client.schedule.getHandle('watch-signers').describe();
    expect(spec.intervals).toMatchObject([{ every: 60_000 }]);
    const daily = await client.schedule.getHandle('refresh-keys').describe();
    expect(daily.spec.intervals).toMatchObject([{ every: 86_400_000 }]);
  });

  it('look at coins for fees on every chain, as often as the configuration says', async () => {
    await ensureSchedules(client, { keyRefreshDays: 30, environment: 'sandbox', ...gas, gasCheckMinutes: 7 });
    expect(await argsOf('watch-gas')).toEqual([{ chains: ['eip155:31337'] }]);
    const { spec } = await client.schedule.getHandle('watch-gas').describe();
    expect(spec.intervals).toMatchObject([{ every: 7 * 60_000 }]);
  });

  it('refresh no keys when told so, say why, and begin again by the next setting', async () => {
    await ensureSchedules(client, { keyRefreshDays: 0, environment: 'sandbox', ...gas });
    expect(await stateOf('refresh-keys')).toMatchObject({ paused: true, note: 'PURSER_KEY_REFRESH_DAYS is 0' });
    expect(await stateOf('watch-signers')).toMatchObject({ paused: false });
    await ensureSchedules(client, { keyRefreshDays: 0, environment: 'sandbox', ...gas });
    await ensureSchedules(client, { keyRefreshDays: 30, environment: 'sandbox', ...gas });
    expect(await stateOf('refresh-keys')).toMatchObject({ paused: false });
  });

  it('are made paused where the first setting is so', async () => {
    await client.schedule.getHandle('refresh-keys').delete();
    await ensureSchedules(client, { keyRefreshDays: 0, environment: 'sandbox', ...gas });
    expect(await stateOf('refresh-keys')).toMatchObject({ paused: true, note: 'PURSER_KEY_REFRESH_DAYS is 0' });
    await ensureSchedules(client, { keyRefreshDays: 30, environment: 'sandbox', ...gas });
  });

  it('stay paused where an operator has paused them', async () => {
    for (const id of ['refresh-keys', 'reconcile']) await client.schedule.getHandle(id).pause('audit of the signers');
    await ensureSchedules(client, { keyRefreshDays: 30, environment: 'sandbox', ...gas });
    for (const id of ['refresh-keys', 'reconcile'])
      expect(await stateOf(id)).toMatchObject({ paused: true, note: 'audit of the signers' });
  });
});
