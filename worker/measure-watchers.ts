import { Gauge, type Registry } from 'prom-client';
import type { WatcherMeasure } from '../activities/watch-blocks.ts';

/** Registers how the block watchers of the process do. */
export function measureWatchers(registry: Registry): (chain: string) => WatcherMeasure {
  const registers = [registry];
  const lastRound = new Gauge({
    name: 'purser_watcher_last_round_timestamp_seconds',
    help: 'When the block watcher that leads last went through a round; of one that stands by, when it began to.',
    labelNames: ['chain'],
    registers,
  });
  const leader = new Gauge({
    name: 'purser_watcher_leads',
    help: '1 where this process leads the watch over the chain; one process does.',
    labelNames: ['chain'],
    registers,
  });
  const lag = new Gauge({
    name: 'purser_watcher_lag_blocks',
    help: 'By how many blocks what was read is behind the chain’s head, as most endpoints show it; 0 while nothing waits. Told by the process that leads.',
    labelNames: ['chain'],
    registers,
  });
  return (chain) => {
    lastRound.setToCurrentTime({ chain });
    leader.set({ chain }, 0);
    return {
      worked: () => lastRound.setToCurrentTime({ chain }),
      lags: (blocks) => lag.set({ chain }, blocks),
      leads(isLeader) {
        leader.set({ chain }, Number(isLeader));
        // What it knew of the head is not looked after any more.
        if (!isLeader) lag.remove({ chain });
      },
    };
  };
}
