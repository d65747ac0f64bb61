import { readdirSync, readFileSync } from 'node:fs';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { Worker, type WorkflowBundleWithSourceMap } from '@temporalio/worker';
import { beforeAll, describe, expect, it } from 'vitest';
import { makeWorkflowBundle } from '../../worker/bundle.ts';

const dir = new URL('./', import.meta.url);
const recorded = readdirSync(dir).filter((file) => file.endsWith('.json'));

let workflowBundle: WorkflowBundleWithSourceMap;
beforeAll(async () => {
  workflowBundle = await makeWorkflowBundle();
});

const read = (file: string) => readFileSync(new URL(file, dir), 'utf8');

describe('histories that were recorded once', () => {
  it('are there', () => expect(recorded.length).toBeGreaterThanOrEqual(4));

  it.each(recorded)('%s is carried on by today’s code', async (file) => {
    await Worker.runReplayHistory({ workflowBundle }, historyFromJSON(JSON.parse(read(file))), 'replayed');
  });

  it('would tell if the flow had changed', async () => {
    const text = read('transaction-confirmed.json').replaceAll('"prepare"', '"prepareOld"');
    const replay = Worker.runReplayHistory({ workflowBundle }, historyFromJSON(JSON.parse(text)), 'replayed');
    await expect(replay).rejects.toThrow(/nondeterminism|prepareOld/i);
  });
});
