import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeWorkflowBundle } from '../../worker/bundle.ts';

/** Names the file of the workflow code that every stack of this run uses. */
export const BUNDLE_OF_RUN = 'TEST_WORKFLOW_BUNDLE';

let made: Promise<string> | undefined;
let users = 0;

/** Makes the workflow code once for a whole run instead of once for each stack. Called once for each project that names this file. */
export default async function setup(): Promise<() => void> {
  users += 1;
  made ??= make();
  const dir = await made;
  return () => {
    users -= 1;
    if (users === 0) rmSync(dir, { recursive: true, force: true });
  };
}

async function make(): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-bundle-'));
  const file = join(dir, 'workflows.js');
  writeFileSync(file, (await makeWorkflowBundle()).code);
  process.env[BUNDLE_OF_RUN] = file;
  return dir;
}
