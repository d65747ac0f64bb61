import { Connection } from '@temporalio/client';
import { LOOPBACK } from './ports.ts';
import { type Guard, startProcess, waitUntilReady } from './process.ts';

const START_TIMEOUT_MS = 60_000;
/** The dev server polls its one shard 20 times a second by default; see "history.*MaxPollRPS" in its configuration. */
const MAX_POLL_RPS = 1_000;

/** What the workflows set and operators filter by. Registered before the first start of a workflow. */
const SEARCH_ATTRIBUTES = {
  AccountId: 'Keyword',
  AgentId: 'Keyword',
  TxStatus: 'Keyword',
  Chain: 'Keyword',
  ApprovalDeadline: 'Datetime',
} as const;

/** `IndexedValueType` of Temporal's API. */
const INDEXED_VALUE_TYPES = { Keyword: 2, Datetime: 6 } as const;

/** A running Temporal development server. */
export interface TemporalServer {
  /** `host:port` for clients and workers. */
  address: string;
  /** Web interface, when a port for it was given. */
  uiUrl: string | undefined;
  exited: Promise<string>;
  pid: number;
  stop(): Promise<void>;
}

/**
 * For throughput; a worker that stops is given nothing any more, where a task would be lost until its timeout; and
 * accounts share the queues fairly.
 */
const dynamicConfig: string[] = [
  ...['transfer', 'timer', 'visibility'].map((queue) => `history.${queue}ProcessorMaxPollRPS=${MAX_POLL_RPS}`),
  'frontend.enableCancelWorkerPollsOnShutdown=true',
  'matching.longPollExpirationInterval="5s"',
  'matching.enableFairness=true',
].flatMap((setting) => ['--dynamic-config-value', setting]);

/**
 * Starts the Temporal development server and waits until its namespace `default` answers. With `dbFile` it keeps its
 * data there (a write-ahead log; kill -9 loses nothing that it has acknowledged), without it in memory.
 */
export async function startTemporal(
  guard: Guard,
  o: { binary: string; port: number; uiPort?: number; dbFile?: string; logFile: string },
): Promise<TemporalServer> {
  const pragmas = ['--sqlite-pragma', 'journal_mode=WAL', '--sqlite-pragma', 'synchronous=NORMAL'];
  const child = await startProcess(guard, {
    name: 'Temporal',
    command: o.binary,
    args: [
      ...['server', 'start-dev', '--ip', LOOPBACK, '--port', String(o.port), '--log-level', 'error'],
      ...(o.uiPort === undefined ? ['--headless'] : ['--ui-port', String(o.uiPort)]),
      ...(o.dbFile === undefined ? [] : ['--db-filename', o.dbFile, ...pragmas]),
      ...dynamicConfig,
      ...Object.entries(SEARCH_ATTRIBUTES).flatMap(([name, type]) => ['--search-attribute', `${name}=${type}`]),
    ],
    // GOGC trades memory for about a sixth of the server's CPU.
    env: { PATH: process.env.PATH, HOME: process.env.HOME, GOGC: '400' },
    logFile: o.logFile,
  });
  const address = `${LOOPBACK}:${o.port}`;
  try {
    // An open port is too early: the namespace and the search attributes are registered afterwards.
    await waitUntilReady(child, { timeoutMs: START_TIMEOUT_MS, check: () => describeNamespace(address) });
  } catch (error) {
    await child.stop();
    throw error;
  }
  return {
    address,
    uiUrl: o.uiPort === undefined ? undefined : `http://${LOOPBACK}:${o.uiPort}`,
    exited: child.exited,
    pid: child.pid,
    stop: () => child.stop(),
  };
}

/** Registers our search attributes at a server that somebody else has set up. A repeat changes nothing. */
export async function registerSearchAttributes(connection: Connection, o: { namespace: string }): Promise<void> {
  const { namespace } = o;
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  const missing = Object.entries(SEARCH_ATTRIBUTES).filter(([name]) => !(name in (customAttributes ?? {})));
  if (missing.length === 0) return;
  const searchAttributes = Object.fromEntries(missing.map(([name, type]) => [name, INDEXED_VALUE_TYPES[type]]));
  await connection.operatorService.addSearchAttributes({ namespace, searchAttributes });
}

async function describeNamespace(address: string): Promise<void> {
  const connection = await Connection.connect({ address, connectTimeout: 1_000 });
  try {
    await connection.workflowService.describeNamespace({ namespace: 'default' });
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace: 'default' });
    const missing = Object.keys(SEARCH_ATTRIBUTES).filter((name) => !(name in (customAttributes ?? {})));
    if (missing.length > 0) throw new Error(`search attributes ${missing.join(', ')} are not registered yet`);
  } finally {
    await connection.close();
  }
}
