import { Client, Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { generateKeyPair } from 'jose';
import { createChainActivities } from '../../../activities/chain.ts';
import { createWalletActivities } from '../../../activities/wallet.ts';
import type { ChainAdapter } from '../../../shared/chain/adapter.ts';
import { createEvmAdapter } from '../../../shared/chain/evm/create-evm-adapter.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import { createPool } from '../../../shared/db/pool.ts';
import { createLogger } from '../../../shared/log.ts';
import { makeWorkflowBundle } from '../../../worker/bundle.ts';
import { createChainWorker } from '../../../worker/chain.ts';
import { createWalletWorker } from '../../../worker/wallet.ts';
import { startTestChain, type TestChain } from '../../support/anvil.ts';
import { patience, patiently } from '../../support/patience.ts';
import { startOwnTemporal } from '../../support/temporal.ts';
import { startTestApi, type TestApi } from './harness.ts';

/** Chain of which no endpoint answers. */
export const deadChain = 'eip155:84532';

export interface ApiWithChain {
  readonly api: TestApi;
  readonly local: TestChain;
  readonly temporal: Client;
  readonly temporalAddress: string;
  /** Has nobody left who reaches the chains. */
  stopChainWorker(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * The api with all that it needs to ask chains: Temporal, the workers of decisions and of chains, a chain, and a dead one
 * unless told otherwise.
 */
export async function startApiWithChain({
  hasDead = true,
  further = [],
  endpoint = async (rpcUrl) => rpcUrl,
}: {
  hasDead?: boolean;
  /** Of chains besides. */
  further?: readonly ChainAdapter[];
  /** The URL that the worker is given in place of the chain's own. */
  endpoint?: (rpcUrl: string) => Promise<string>;
} = {}): Promise<ApiWithChain> {
  const [temporal, local] = await Promise.all([startOwnTemporal(), startTestChain()]);
  const { address } = temporal;
  const served = [local.chain, ...(hasDead ? [deadChain] : [])];
  const api = await startTestApi({
    ...{ temporalAddress: address, decisionWaitMs: 10_000, usdc: local.usdcAddress },
    chains: [...served, ...further.map(({ chain }) => chain.id)],
  });
  const pool = createPool({ url: api.databaseUrl, application: 'test-worker' });
  const [connection, clientConnection] = await Promise.all([
    NativeConnection.connect({ address }),
    Connection.connect({ address }),
  ]);
  const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519' });
  const walletWorker = await createWalletWorker({
    connection,
    namespace: 'default',
    workflowBundle: await makeWorkflowBundle(),
    activities: createWalletActivities({
      pool,
      client: new Client({ connection: clientConnection }),
      clock: databaseClock,
      logger: createLogger({ process: 'test', level: 'silent' }),
      policyKey: privateKey,
      maxInFlight: 16,
      patience,
      spareKeys: 0,
      retention: { eventMonths: 13, auditMonths: 25 },
    }),
  });
  const adapter = (chain: string, url: string) => createEvmAdapter({ chain: api.registry.chain(chain)!, urls: [url] });
  const urls: Readonly<Record<string, string>> = {
    [local.chain]: await endpoint(local.rpcUrl),
    [deadChain]: 'http://127.0.0.1:1',
  };
  const chains = new Map<string, ChainAdapter>([
    ...served.map((chain) => [chain, adapter(chain, urls[chain]!)] as const),
    ...further.map((each) => [each.chain.id, each] as const),
  ]);
  const chainWorker = await createChainWorker({
    connection,
    namespace: 'default',
    activities: createChainActivities({ pool, chains, lowTransfers: 5, ...patiently }),
  });
  const running = { wallet: walletWorker.run(), chain: chainWorker.run() };
  async function stopChainWorker() {
    if (chainWorker.getState() === 'RUNNING') chainWorker.shutdown();
    await running.chain;
  }
  return {
    api,
    local,
    temporal: new Client({ connection: clientConnection }),
    temporalAddress: address,
    stopChainWorker,
    async stop() {
      walletWorker.shutdown();
      await Promise.all([running.wallet, stopChainWorker()]);
      await Promise.all([connection.close(), clientConnection.close()]);
      await pool.end();
      await api.stop();
      await Promise.all([temporal.stop(), local.stop()]);
    },
  };
}
