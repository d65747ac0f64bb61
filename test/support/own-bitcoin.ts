import { createTreasury, fillTreasury, minerAddress } from '../../dev/bitcoin-treasury.ts';
import { type BitcoinNode, btcdPassword, startBtcd } from '../../dev/btcd.ts';
import { btcdBinary } from '../../dev/btcd-binary.ts';
import type { BtcdRpc } from '../../dev/btcd-rpc.ts';
import { type EsploraDoor, startEsploraDoor } from '../../dev/esplora.ts';
import { freePort } from '../../dev/ports.ts';
import type { Guard } from '../../dev/process.ts';
import { type BitcoinOperator, createBitcoinOperator } from './bitcoin-operator.ts';
import { type EsploraProxy, startEsploraProxy } from './esplora-proxy.ts';

/** The Bitcoin chain of a stack of one's own: a real node, and the API through which the service asks it. */
export interface OwnBitcoin extends BitcoinOperator {
  /** Of the API, as the service is given it: that of `proxy`. */
  readonly url: string;
  /** In front of the API, to fail as it is told. */
  readonly proxy: EsploraProxy;
  /** Of the node, also after it was started again. */
  readonly rpc: BtcdRpc;
  /** Gives an address coins of these sizes, in satoshis; they wait for a block. */
  fund(address: string, coinsSat: readonly bigint[]): Promise<void>;
  /** Nobody answers at `url` until `openDoor`; who was waiting for an answer does not get it. */
  closeDoor(): Promise<void>;
  openDoor(): Promise<void>;
}

/** How to start a node, any number of times, at one address and with one chain. */
export async function planBtcd(
  guard: Guard,
  { dir, logFile }: { dir: string; logFile: string },
): Promise<() => Promise<BitcoinNode>> {
  const binary = await btcdBinary(process.env);
  const [port, password] = [await freePort(), btcdPassword()];
  return () => startBtcd(guard, { binary, port, password, dir, minerAddress, logFile });
}

/** @param node the one that runs now; throws while there is none that has its chain */
export async function openBitcoin(node: () => BitcoinNode): Promise<OwnBitcoin & { stop(): Promise<void> }> {
  const rpc: BtcdRpc = async (method, ...params) => node().rpc(method, ...params);
  await fillTreasury(node());
  const treasury = createTreasury(rpc);
  const port = await freePort();
  let door: EsploraDoor | undefined = await startEsploraDoor({ rpc, port });
  const proxy = await startEsploraProxy({ target: door.url });
  const closeDoor = async () => {
    await door?.stop();
    door = undefined;
  };
  return {
    ...createBitcoinOperator(node),
    ...{ url: proxy.url, proxy, rpc, closeDoor },
    async fund(address, coinsSat) {
      await treasury.pay(coinsSat.map((valueSat) => ({ address, valueSat })));
    },
    async openDoor() {
      door ??= await startEsploraDoor({ rpc, port });
    },
    async stop() {
      await proxy.stop();
      await closeDoor();
    },
  };
}
