import type { Connection } from '@temporalio/client';

const waitMs = 2_000;

/** Asks a Temporal server where it keeps its data: `sqlite` is what a development server says. */
export function createPersistenceStore(connection: Connection) {
  return async function persistenceStore(): Promise<string | null | undefined> {
    const info = await connection.withDeadline(Date.now() + waitMs, () =>
      connection.workflowService.getClusterInfo({}),
    );
    return info.persistenceStore;
  };
}
