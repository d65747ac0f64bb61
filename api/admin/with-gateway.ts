import { Client, Connection } from '@temporalio/client';
import type { AdminConfig } from '../../shared/config.ts';
import { createTemporalGateway, type TemporalGateway } from '../temporal-gateway.ts';

type Tellers = Pick<TemporalGateway, 'tellAnswer' | 'tellFreeze' | 'freezeProgress'>;
const nobody: Tellers = {
  tellAnswer: async () => {},
  tellFreeze: async () => {},
  freezeProgress: async () => undefined,
};

/**
 * Work that tells Temporal something. Where none is configured nobody is told: schedules find by themselves what changed.
 * @param lost what the operator reads when a word got lost: each of them is a hint
 */
export async function withGateway<T>(
  { temporal }: AdminConfig,
  { lost }: { lost: string },
  work: (tellers: Tellers) => Promise<T>,
): Promise<T> {
  if (!temporal) return work(nobody);
  const { address, namespace, apiKey, tls } = temporal;
  const connection = Connection.lazy({ address, tls, ...(apiKey !== undefined && { apiKey }) });
  const client = new Client({ connection, namespace });
  try {
    return await work(createTemporalGateway({ client, decisionWaitMs: 0, log: { warn: () => console.error(lost) } }));
  } finally {
    await connection.close();
  }
}
