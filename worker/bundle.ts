import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger, type WorkflowBundleWithSourceMap } from '@temporalio/worker';

/** Makes the one file in which all workflow code is; takes a second or two. */
export function makeWorkflowBundle(): Promise<WorkflowBundleWithSourceMap> {
  return bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL('../workflows/index.ts', import.meta.url)),
    workflowInterceptorModules: [fileURLToPath(new URL('../workflows/context-interceptors.ts', import.meta.url))],
    logger: new DefaultLogger('ERROR'),
  });
}

// `node worker/bundle.ts FILE` makes it ahead of time; PURSER_WORKFLOW_BUNDLE then names the file.
if (import.meta.main) {
  const file = process.argv[2];
  if (!file) {
    console.error('Name the file to be written: node worker/bundle.ts FILE');
    process.exit(1);
  }
  const { code } = await makeWorkflowBundle();
  writeFileSync(file, code);
  console.log(`${file}: ${(code.length / 1e6).toFixed(2)} MB`);
}
