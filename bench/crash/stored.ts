import type { CrashAgent } from './agents.ts';
import type { TokenSymbol } from './plan.ts';
import type { CrashWorld } from './world.ts';

const pageSize = 100;

/** A payment as the API shows it. */
export interface StoredPayment {
  readonly id: string;
  readonly agent_id: string;
  readonly memo: string | null;
  readonly status: 'pending' | 'confirmed' | 'failed';
  readonly status_detail: string;
  readonly failure_code: string | null;
  readonly failure_message: string | null;
  readonly to_address: string;
  readonly amount: string;
  readonly token: TokenSymbol;
  readonly nonce: number | null;
  readonly hash: string | null;
  readonly attempts: readonly { readonly hash: string }[];
  readonly fee: string | null;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Every payment of these agents. */
export async function readStored(
  { client }: CrashWorld,
  agents: readonly Pick<CrashAgent, 'id'>[],
): Promise<StoredPayment[]> {
  const lists = await Promise.all(
    agents.map(async ({ id }) => {
      const { status, body } = await client.insist(() =>
        client.get(`/transactions?agent_id=${id}&page_size=${pageSize}`),
      );
      if (status !== 200) throw new Error(`GET /transactions: ${status} ${JSON.stringify(body)}`);
      return body.data as StoredPayment[];
    }),
  );
  return lists.flat();
}
