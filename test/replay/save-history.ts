import { existsSync, writeFileSync } from 'node:fs';
import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';

/** Keeps a workflow's history under a name; one that is there already stays. */
export async function saveHistory(
  { workflow }: Client,
  { name, workflowId }: { name: string; workflowId: string },
): Promise<void> {
  const file = new URL(`./${name}.json`, import.meta.url);
  if (existsSync(file)) return console.log(`${name}: kept`);
  const history = JSON.parse(historyToJSON(await workflow.getHandle(workflowId).fetchHistory()));
  // Which machine recorded it is nobody's business, and no part of what is replayed.
  const text = JSON.stringify(
    history,
    (key, value) => (key === 'identity' || isQueueOfOne(value) ? 'worker' : value),
    1,
  );
  writeFileSync(file, `${text}\n`);
  console.log(`${name}: recorded from ${workflowId}`);
}

/** Name of the queue that one worker alone has: it holds the worker's identity, as `<pid>@<host>`. */
function isQueueOfOne(value: unknown): boolean {
  return typeof value === 'string' && /^\d+@[\w.-]+/.test(value);
}
