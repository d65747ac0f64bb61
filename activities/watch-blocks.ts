import pg from 'pg';
import type { ChainAdapter } from '../shared/chain/adapter.ts';
import { attemptsChannel } from '../shared/db/attempts.ts';
import type { Pool } from '../shared/db/pool.ts';
import type { Logger } from '../shared/log.ts';
import { createFollower } from './follow-chain.ts';
import { createAuthorizationFollower } from './watch-authorizations.ts';

/** How often one that stands by tries to take over. */
const standbyMs = 500;
/** How often the database is asked for open payments while there are none; a new one is announced besides. */
const idleMs = 1_000;
/** How often the head is asked for, at most, while only authorisations wait; a payment that is sent ends the wait. */
const shortestQuietMs = 200;
/** Waits after failures: doubled each time, between these two, and shortened by chance by up to a half. */
const shortestBackoffMs = 250;
const longestBackoffMs = 5_000;
/** A statement that takes longer is taken for a lost connection. */
const queryTimeoutMs = 10_000;
/** Signals under way at most; a hint beyond that is dropped, for the workflow looks by itself later. */
const maxWakes = 500;

export interface BlockWatcher {
  start(): void;
  /** Ends after the round under way, and gives the lead to another one. */
  stop(): Promise<void>;
}

/** Is told how a watcher does, for whoever measures. */
export interface WatcherMeasure {
  /** A round has come to its end, chain asked or not. */
  worked(): void;
  /** By how many blocks what was read is behind the chain's head; told by the one that leads, also after a round that failed. */
  lags(blocks: number): void;
  /** It has got the lead, or lost it. */
  leads(isLeader: boolean): void;
}

export interface BlockWatcherDependencies {
  /** Only its settings are used: the watcher holds one connection of its own. */
  readonly pool: Pool;
  readonly adapter: ChainAdapter;
  /** Tells a payment's workflow that the database knows more: a hint without data, which may be lost. */
  readonly wake: (paymentId: string) => Promise<void>;
  readonly logger: Logger;
  /** Time between two looks at the head while a payment waits; default: the chain's own. */
  readonly pollMs?: number;
  readonly measure?: WatcherMeasure;
}

/**
 * Watches one chain for all payments, whatever their number. Of all watchers of a chain one leads: the one whose
 * connection holds the advisory lock. The others stand by and take over when that connection ends. Everything that the
 * leader reads and writes goes through that connection, so that a leader that has lost the lock can do nothing.
 */
export function createBlockWatcher({
  pool,
  adapter,
  wake,
  logger,
  pollMs = adapter.pollMs,
  measure,
}: BlockWatcherDependencies): BlockWatcher {
  const chain = adapter.chain.id;
  const bell = createBell();
  const report = createStateLog(logger, chain);
  const wakes = new Set<Promise<void>>();
  let running: Promise<void> | undefined;
  let stopped = false;
  let failures = 0;

  return {
    start() {
      running ??= run();
    },
    async stop() {
      stopped = true;
      bell.ring();
      await running;
      await Promise.all(wakes);
    },
  };

  async function run(): Promise<void> {
    while (!stopped) {
      const client = new pg.Client({
        ...pool.options,
        application_name: `watcher ${chain}`,
        query_timeout: queryTimeoutMs,
      });
      // The error shows at the next statement; without a listener it would end the process.
      client.on('error', () => bell.ring());
      client.on('notification', ({ payload }) => {
        if (payload === chain) bell.ring();
      });
      try {
        await client.connect();
        if (await lead(client)) await follow(client);
      } catch (error) {
        report.failing(error);
        await backOff();
      } finally {
        measure?.leads(false);
        await client.end().catch(() => {});
      }
    }
  }

  /** Waits for the lead. @returns false when stopped before */
  async function lead(client: pg.Client): Promise<boolean> {
    // A leader whose machine has vanished loses the lock within some ten seconds.
    await client.query(`set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3`);
    while (!stopped) {
      const { rows } = await client.query<{ leads: boolean }>(
        `select pg_try_advisory_lock(hashtext('block watcher'), hashtext($1)) as leads`,
        [chain],
      );
      if (rows[0]!.leads) {
        await client.query(`listen ${attemptsChannel}`);
        logger.info({ chain }, 'leads the watch over the chain');
        measure?.leads(true);
        return true;
      }
      report.working();
      failures = 0;
      await bell.wait(standbyMs);
    }
    return false;
  }

  /** Round after round, until stopped or until the connection is lost. A chain that cannot be reached ends nothing. */
  async function follow(client: pg.Client): Promise<void> {
    const follower = createFollower({ db: client, adapter, wake: wakeSoon, logger });
    const authorizations = createAuthorizationFollower({ db: client, adapter, wake: wakeSoon, logger });
    const tellLag = () => measure?.lags(Math.max(follower.lagBlocks(), authorizations.lagBlocks()));
    while (!stopped) {
      bell.hush();
      try {
        const transactions = await follower.round();
        const others = await authorizations.round();
        report.working();
        measure?.worked();
        tellLag();
        failures = 0;
        // While payments wait, the next look comes at its time, however many are announced.
        if (transactions === 'busy') await bell.rest(pollMs, () => stopped);
        else await bell.wait(others === 'busy' ? Math.max(pollMs, shortestQuietMs) : idleMs);
      } catch (error) {
        report.failing(error);
        tellLag();
        await backOff();
        // Throws when it is the connection that failed, and with it the lead.
        await client.query('select 1');
      }
    }
  }

  function wakeSoon(paymentId: string): void {
    if (wakes.size >= maxWakes) return;
    const sent = wake(paymentId)
      .catch((error: unknown) => logger.debug({ chain, paymentId, error: String(error) }, 'a wake-up was lost'))
      .finally(() => wakes.delete(sent));
    wakes.add(sent);
  }

  async function backOff(): Promise<void> {
    const fullMs = Math.min(shortestBackoffMs * 2 ** failures, longestBackoffMs);
    failures = Math.min(failures + 1, 10);
    await bell.rest(fullMs * (0.5 + Math.random() / 2), () => stopped);
  }
}

/** A wait that can be ended early; a ring while nobody waits ends the next wait at once. */
interface Bell {
  ring(): void;
  /** Forgets earlier rings. */
  hush(): void;
  wait(ms: number): Promise<void>;
  /** Waits whatever rings, unless `isOver` by then. */
  rest(ms: number, isOver: () => boolean): Promise<void>;
}

function createBell(): Bell {
  let rung = false;
  let onRing = () => {};
  const sleep = (ms: number, ends: () => boolean) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(done, ms);
      function done(): void {
        clearTimeout(timer);
        onRing = () => {};
        resolve();
      }
      onRing = () => {
        if (ends()) done();
      };
      onRing();
    });
  return {
    ring() {
      rung = true;
      onRing();
    },
    hush() {
      rung = false;
    },
    wait: (ms) => sleep(ms, () => rung),
    rest: (ms, isOver) => sleep(ms, isOver),
  };
}

/** Says once that the watch fails, and once that it works again. */
function createStateLog(logger: Logger, chain: string) {
  let isFailing = false;
  return {
    failing(error: unknown): void {
      if (!isFailing) logger.warn({ chain, error: String(error) }, 'the watch over the chain is interrupted');
      isFailing = true;
    },
    working(): void {
      if (isFailing) logger.info({ chain }, 'the watch over the chain goes on');
      isFailing = false;
    },
  };
}
