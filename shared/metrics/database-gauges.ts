import { setTimeout as delay } from 'node:timers/promises';
import { Gauge, type Registry } from 'prom-client';
import type { Pool } from '../db/pool.ts';
import { readVitalSigns, type VitalSign } from '../db/vital-signs.ts';
import type { Logger } from '../log.ts';

/** How long a look is good for: however many ask, the database is asked so often at most. */
const lifetimeMs = 5_000;
/** A scrape waits no longer; whoever scrapes gives up after ten seconds by default. */
const longestWaitMs = 4_000;

/** Metric, what it says, and its labels, by the name of the sign (shared/db/vital-signs.ts). */
const gauges = {
  transactions_open: ['purser_transactions_open', 'Transactions under way.', ['chain', 'state']],
  transactions_oldest: [
    'purser_transactions_oldest_seconds',
    'Age of the oldest transaction under way.',
    ['chain', 'state'],
  ],
  transactions_unmoved: [
    'purser_transactions_unmoved_seconds',
    'For how long the transaction has not moved that has not for longest.',
    ['chain', 'state'],
  ],
  x402_open: [
    'purser_x402_payments_open',
    'x402 payments under way; unsettled: signed and handed out, and neither used nor expired.',
    ['chain', 'state'],
  ],
  x402_oldest: ['purser_x402_payments_oldest_seconds', 'Age of the oldest x402 payment under way.', ['chain', 'state']],
  x402_sessions_open: ['purser_x402_sessions_open', 'x402 sessions that hold their budget.', []],
  slots_open: ['purser_slots_open', 'Places of wallets (nonces, or coins) that are taken by transactions.', ['chain']],
  slots_unmoved: [
    'purser_slots_unmoved_seconds',
    'For how long the payment has not moved that holds a place of its wallet, of all such the longest.',
    ['chain'],
  ],
  approvals_waiting: ['purser_approvals_waiting', 'Questions that wait for an answer of people.', []],
  approvals_oldest: ['purser_approvals_oldest_seconds', 'Age of the oldest question without an answer.', []],
  approval_mails_waiting: ['purser_approval_mails_waiting', 'Mails of open questions that are not sent yet.', []],
  approval_mails_failed: ['purser_approval_mails_failed', 'Mails of open questions that were refused for good.', []],
  deliveries_waiting: ['purser_webhook_deliveries_waiting', 'Deliveries to webhooks that have not ended.', []],
  deliveries_untried: [
    'purser_webhook_deliveries_untried_seconds',
    'Age of the oldest delivery that was never attempted.',
    [],
  ],
  deliveries_overdue: [
    'purser_webhook_deliveries_overdue_seconds',
    'For how long the next attempt of a delivery is overdue, of all the longest.',
    [],
  ],
  audit_unsealed: ['purser_audit_unsealed_entries', 'Entries of the audit log without their place in its chain.', []],
  audit_oldest: ['purser_audit_unsealed_oldest_seconds', 'Age of the oldest such entry.', []],
  watcher_block: ['purser_watcher_block', 'Newest block that the block watcher has read.', ['chain']],
  watcher_block_age: [
    'purser_watcher_block_age_seconds',
    'When that was, as an age. Grows while no payment waits: nothing is read then.',
    ['chain'],
  ],
  gas_low: ['purser_wallets_low_on_gas', 'Wallets whose coins for fees are running out.', ['chain']],
  gas_balance: [
    'purser_wallet_gas_balance_minor',
    'Native coins of a wallet that is low on them, in minor units; of the hundred that were found last.',
    ['chain', 'wallet'],
  ],
  gas_transfers: [
    'purser_wallet_gas_transfers_left',
    'Usual transfers for which those coins pay.',
    ['chain', 'wallet'],
  ],
  gas_oldest_reading: [
    'purser_gas_oldest_reading_seconds',
    'Age of the oldest reading of a wallet’s coins for fees.',
    ['chain'],
  ],
  frozen: ['purser_frozen', 'What is frozen, by scope: installation, account, agent.', ['scope']],
  frozen_payments: ['purser_frozen_payments', 'Payments that wait because they are frozen.', []],
  freeze_untold: [
    'purser_freeze_untold_seconds',
    'For how long not every signer has confirmed the newest word about freezes; 0: all have.',
    [],
  ],
  signer_alerts: [
    'purser_signer_alerts',
    'What is wrong with the signers and has lasted, by kind; party is empty where it is about none or all.',
    ['kind', 'party'],
  ],
  leftovers: ['purser_reservations_unmatched', 'Reservations and holds that belong to no payment under way.', ['kind']],
} as const satisfies Record<string, readonly [name: string, help: string, labels: readonly string[]]>;
type SignName = keyof typeof gauges;

/** What is told as 0 where nothing is found, so that a rule sees the difference to a database that is away. */
const zeros: readonly VitalSign[] = [
  ...(['approval_mails_waiting', 'approval_mails_failed'] as const).map((sign) => ({ sign, labels: {}, value: 0 })),
  ...['installation', 'account', 'agent'].map((scope) => ({ sign: 'frozen', labels: { scope }, value: 0 })),
];

/**
 * Registers what the database tells about the installation. It is read when somebody scrapes, at most every five seconds,
 * by one statement. A database that is away or slow fails no scrape: `purser_database_up` is 0 then, and the rest is absent.
 */
export function measureDatabase({ pool, registry, log }: { pool: Pool; registry: Registry; log: Logger }): void {
  const registers = [registry];
  const look = createLook({ pool, log });
  for (const [sign, [name, help, labelNames]] of Object.entries(gauges))
    new Gauge({
      ...{ name, help, registers, labelNames: [...labelNames] },
      async collect() {
        fill(this, { name: sign as SignName, isPlain: labelNames.length === 0, signs: await look() });
      },
    });
  new Gauge({
    name: 'purser_database_up',
    help: '1 where the database answered in time what is under way.',
    registers,
    async collect() {
      this.set(Number((await look()) !== undefined));
    },
  });
}

function fill(
  gauge: Gauge,
  { name, isPlain, signs }: { name: SignName; isPlain: boolean; signs: readonly VitalSign[] | undefined },
): void {
  gauge.reset();
  // Without labels a gauge is 0 unless it is taken away.
  if (isPlain) gauge.remove();
  for (const { sign, labels, value } of signs ?? []) if (sign === name) gauge.set(labels, value);
}

/** All gauges of a scrape see one look; a look that does not come in time is none. */
function createLook({ pool, log }: { pool: Pool; log: Logger }): () => Promise<readonly VitalSign[] | undefined> {
  let kept: { value: Promise<readonly VitalSign[] | undefined>; untilMs: number } | undefined;
  let isFailing = false;

  async function read(): Promise<readonly VitalSign[] | undefined> {
    const giveUp = new AbortController();
    const tooLate = delay(longestWaitMs, undefined, { signal: giveUp.signal }).then(() => {
      throw new Error(`The database did not answer within ${longestWaitMs / 1000} s.`);
    });
    tooLate.catch(() => {});
    try {
      const found = await Promise.race([readVitalSigns(pool), tooLate]);
      if (isFailing) log.info('the database can be asked for metrics again');
      isFailing = false;
      return [...zeros, ...found];
    } catch (error) {
      if (!isFailing) log.warn({ error: String(error) }, 'the database cannot be asked for metrics');
      isFailing = true;
      return undefined;
    } finally {
      giveUp.abort();
    }
  }

  return () => {
    if (kept && performance.now() < kept.untilMs) return kept.value;
    const entry = { value: read(), untilMs: Number.POSITIVE_INFINITY };
    kept = entry;
    void entry.value.then(() => {
      entry.untilMs = performance.now() + lifetimeMs;
    });
    return entry.value;
  };
}
