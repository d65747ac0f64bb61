import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { SignerContext } from './context.ts';

/** From a look at the database to a round of key generation on a busy machine; seconds. */
const durationBuckets = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** What was answered to one request: the operation, and `ok` or the code of the refusal. */
export interface ServedRequest {
  readonly operation: string;
  readonly outcome: string;
  readonly seconds: number;
}

/**
 * Registers what one signer tells about itself: counts, times and its own number, and nothing of keys, wallets or payments.
 * @returns what is to be told of each request
 */
export function measureSigner(context: SignerContext, registry: Registry): (served: ServedRequest) => void {
  const registers = [registry];
  const { party, engine, store, sessions, freezes, kekRotation, backup } = context;
  registry.setDefaultLabels({ party: String(party) });
  const requests = new Counter({
    name: 'purser_signer_requests_total',
    help: 'Requests that the signer answered, by operation and outcome: ok, or the code of the refusal.',
    labelNames: ['operation', 'outcome'],
    registers,
  });
  const durations = new Histogram({
    name: 'purser_signer_request_duration_seconds',
    help: 'How long the signer worked on requests, by operation.',
    labelNames: ['operation'],
    buckets: durationBuckets,
    registers,
  });
  new Gauge({
    name: 'purser_signer_engine_info',
    help: 'Always 1; its label says which build of the engine runs.',
    labelNames: ['engine'],
    registers,
  }).set({ engine: engine.build }, 1);
  const read = (name: string, help: string, value: () => number) =>
    new Gauge({
      ...{ name, help, registers },
      collect() {
        this.set(value());
      },
    });
  read('purser_signer_keys', 'Account keys of which the signer holds a share.', () => store.countKeys());
  read(
    'purser_signer_bans',
    'Keys and signers with which this one does nothing more until an operator lifts it.',
    () => {
      return store.listBans().length;
    },
  );
  read('purser_signer_sessions_open', 'Signatures under way.', () => sessions.count('sign'));
  read('purser_signer_kek_outdated_shares', 'Shares that are sealed under an earlier key-encryption key.', () =>
    kekRotation.status().earlier.reduce((sum, { shares }) => sum + shares, 0),
  );
  new Gauge({
    name: 'purser_signer_frozen',
    help: 'What the signer signs nothing new for: 1 for installation and operator, else how many.',
    labelNames: ['scope'],
    registers,
    collect() {
      const { installation, accounts, agents, operator } = freezes.status();
      this.set({ scope: 'installation' }, Number(installation));
      this.set({ scope: 'operator' }, Number(operator !== null));
      this.set({ scope: 'account' }, accounts);
      this.set({ scope: 'agent' }, agents);
    },
  });
  read('purser_signer_backup_configured', '1 where the signer has a target for its backup.', () =>
    Number(backup.status() !== null),
  );
  new Gauge({
    name: 'purser_signer_backup_current_timestamp_seconds',
    help: 'When the backup last held everything; 0: never since the signer has started. Absent where there is no target.',
    registers,
    collect() {
      const status = backup.status();
      if (status) this.set((status.currentAtMs ?? 0) / 1000);
      else this.remove();
    },
  });
  return ({ operation, outcome, seconds }) => {
    requests.inc({ operation, outcome });
    durations.observe({ operation }, seconds);
  };
}
