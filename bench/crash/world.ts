import { Client, Connection } from '@temporalio/client';
import type { Address } from 'viem';
import { LOCAL_CHAIN } from '../../dev/anvil.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { type OwnStack, startOwnStack } from '../../test/support/own-stack.ts';
import { startPaidApi } from '../../test/support/paid-api.ts';
import { type RpcProxy, startRpcProxy } from '../../test/support/rpc-proxy.ts';
import type { TestTarget } from '../../test/support/target.ts';
import { type CrashBitcoin, takeOverBitcoin } from './bitcoin-chain.ts';
import { bitcoinConfirmations } from './bitcoin-plan.ts';
import { type CrashChain, takeOverChain } from './chain.ts';
import { type CrashClient, createCrashClient } from './client.ts';
import { confirmations, endpointCount, maxReorgDepth } from './plan.ts';

/** So few that full blocks last longer. */
const speedUpAfterBlocks = 4;

/** Everything that a run needs, brought up once. */
export interface CrashWorld {
  readonly stack: OwnStack;
  readonly chain: CrashChain;
  readonly proxies: readonly RpcProxy[];
  readonly client: CrashClient;
  readonly pool: Pool;
  readonly temporal: Client;
  readonly usdcAddress: Address;
  /** Only where it was asked for. */
  readonly bitcoin: CrashBitcoin | undefined;
  /** A web API that wants to be paid. */
  readonly target: TestTarget;
  stop(o?: { keepFiles?: boolean }): Promise<void>;
}

/**
 * One stack with two workers and two apis, whose only way to the chain are endpoints that can be made to fail.
 * @param o.bitcoin whether it has a Bitcoin chain besides
 */
export async function startCrashWorld({ bitcoin: wantsBitcoin = false } = {}): Promise<CrashWorld> {
  let proxies: RpcProxy[] = [];
  const stack = await startOwnStack({
    workers: 2,
    apis: 2,
    bitcoin: wantsBitcoin,
    env: {
      PURSER_CONFIRMATIONS_EIP155_31337: String(confirmations),
      PURSER_SPEED_UP_AFTER_BLOCKS_EIP155_31337: String(speedUpAfterBlocks),
      PURSER_CONFIRMATIONS_BIP122_0F9188F13CB7B2C71F2A335E3A4FC328: String(bitcoinConfirmations),
      PURSER_SPEED_UP_AFTER_BLOCKS_BIP122_0F9188F13CB7B2C71F2A335E3A4FC328: String(speedUpAfterBlocks),
    },
    async endpoints(target) {
      proxies = await Promise.all(Array.from({ length: endpointCount }, () => startRpcProxy({ target })));
      return proxies.map(({ url }) => url);
    },
  });
  const chain = await takeOverChain({ rpcUrl: stack.rpcUrl, depth: maxReorgDepth });
  const bitcoin = stack.bitcoin && takeOverBitcoin(stack.bitcoin);
  const target = await startPaidApi({ chain: LOCAL_CHAIN, asset: stack.usdcAddress });
  const pool = createPool({ url: stack.databaseUrl, max: 4, application: 'crash' });
  const connection = Connection.lazy({ address: stack.temporalAddress });
  return {
    stack,
    chain,
    proxies,
    client: createCrashClient(stack),
    pool,
    temporal: new Client({ connection }),
    usdcAddress: stack.usdcAddress,
    bitcoin,
    target,
    async stop(o = {}) {
      await chain.stop();
      await bitcoin?.stop();
      await connection.close();
      await pool.end();
      await stack.stop(o);
      await Promise.all([target, ...proxies].map((each) => each.stop()));
    },
  };
}
