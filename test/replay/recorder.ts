// What the recorders share: a running `npm start`, and where histories are kept.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { createTestClient as createNodeClient, http } from 'viem';
import { anvil } from 'viem/chains';
import { createTestClient } from '../support/client.ts';
import { saveHistory } from './save-history.ts';

export const dev = JSON.parse(readFileSync(join(process.env.PURSER_HOME ?? '.purser', 'dev.json'), 'utf8')) as Record<
  'base_url' | 'api_key' | 'account_id' | 'temporal_address' | 'chain' | 'token_url' | 'rpc_url' | 'usdc_address',
  string
>;
export const client = createTestClient({ baseUrl: dev.base_url, apiKey: dev.api_key });
export const connection = await Connection.connect({ address: dev.temporal_address });
export const temporal = new Client({ connection });

/** See {@link saveHistory}. */
export const save = (name: string, workflowId: string) => saveHistory(temporal, { name, workflowId });

export const node = createNodeClient({ mode: 'anvil', chain: anvil, transport: http(dev.rpc_url) });

/** Whom the policies name. */
export const approver = 'treasurer@example.com';

/** As the approver. @param path below `/api/v1` */
export async function postAsApprover(path: string): Promise<void> {
  const post = async (url: string, body: object, headers: Record<string, string> = {}) => {
    const init = { method: 'POST', headers: { 'Content-Type': 'application/json', ...headers } };
    const response = await fetch(url, { ...init, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${url}: ${await response.text()}`);
    return (await response.json()) as { access_token: string };
  };
  const { access_token } = await post(dev.token_url, { email: approver });
  await post(`${dev.base_url}/api/v1${path}`, {}, { Authorization: `Bearer ${access_token}` });
}
