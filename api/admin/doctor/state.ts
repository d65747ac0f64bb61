import { listFreezes, readFreezes } from '../../../shared/db/freezes.ts';
import type { Pool } from '../../../shared/db/pool.ts';
import { lastingAlerts } from '../../../shared/db/signer-alerts.ts';
import { readVitalSigns, type VitalSign } from '../../../shared/db/vital-signs.ts';
import { describeAlert } from '../../../shared/domain/describe-alert.ts';
import { describeFreeze } from '../../../shared/domain/describe-freeze.ts';
import { type Finding, look, ok, warning, wrong } from './finding.ts';

// The limits are those of the alerts in deploy/prometheus/rules.yml: both call the same thing wrong.

/** A payment that has not moved for longer waits for something that does not come; Bitcoin's blocks take their time. */
const longestStillSeconds = { usual: 900, bitcoin: 14_400 };
const longestUnsealedSeconds = 300;
/** Freezes that are named at most. */
const maxFreezes = 20;
const todo = 'Check DATABASE_URL, and whether the migrations are applied.';

/** What the database knows of how things go: signers, freezes, payments under way, the audit log. */
export async function checkState(pool: Pool): Promise<Finding[]> {
  const signs = readVitalSigns(pool);
  const groups = await Promise.all([
    several('keys of the signers', () => checkAlerts(pool)),
    several('freezes', () => checkFreezes(pool)),
    look('payments under way', todo, async () => checkPayments(await signs)),
    look('audit log', todo, async () => checkSealing(await signs)),
  ]);
  return groups.flat();
}

/** Bans, back-ups, refreshes that are due, limits that differ: what `watchSigners` has found, as long as it lasts. */
async function checkAlerts(pool: Pool): Promise<Finding[]> {
  const open = (await lastingAlerts(pool)).filter(({ openedAt }) => openedAt !== null);
  if (open.length === 0)
    return [ok('keys of the signers', 'no ban, no back-up that is missing, no refresh that is due, limits agree')];
  return open.map((alert) => {
    const { title, advice } = describeAlert(alert);
    const since = `since ${alert.openedAt!.toISOString()}`;
    return wrong('keys of the signers', `${title}, ${since} (${alert.detail}). ${advice}.`);
  });
}

async function checkFreezes(pool: Pool): Promise<Finding[]> {
  const [{ freezes }, { version, told }] = await Promise.all([
    listFreezes(pool, { limit: maxFreezes }),
    readFreezes(pool),
  ]);
  const untold =
    told < version
      ? [
          warning(
            'freezes',
            'not all three signers have confirmed what is frozen and what is not. They are told as soon as they answer: npm run signers -- status.',
          ),
        ]
      : [];
  if (freezes.length === 0 && untold.length === 0) return [ok('freezes', 'nothing is frozen, and the signers know it')];
  return [
    ...freezes.map((freeze) =>
      warning('freezes', `${describeFreeze(freeze)} Where that is not wished any more: npm run admin -- unfreeze.`),
    ),
    ...untold,
  ];
}

function checkPayments(signs: readonly VitalSign[]): Finding {
  const check = 'payments under way';
  const open = sum(signs, 'transactions_open') + sum(signs, 'x402_open');
  const still = signs
    .filter(({ sign, labels }) => sign === 'transactions_unmoved' && labels.state !== 'awaiting_approval')
    .filter(({ labels, value }) => value > longestStillSeconds[isBitcoin(labels.chain) ? 'bitcoin' : 'usual'])
    .toSorted((a, b) => b.value - a.value);
  if (still.length === 0) return ok(check, `${open}; none has stood still for long`);
  const each = still.map(
    ({ labels, value }) => `one on ${labels.chain} has been in state ${labels.state} for ${Math.round(value)} s`,
  );
  return warning(
    check,
    `${open}; ${each.join('; ')}, where ${longestStillSeconds.usual} s are long (Bitcoin: ${longestStillSeconds.bitcoin} s). GET /transactions?status=pending and its workflow in Temporal say what it waits for.`,
  );
}

function checkSealing(signs: readonly VitalSign[]): Finding {
  const [waiting, oldestSeconds] = [sum(signs, 'audit_unsealed'), Math.round(sum(signs, 'audit_oldest'))];
  return oldestSeconds > longestUnsealedSeconds
    ? wrong(
        'audit log',
        `${waiting} entries wait for their place in the chain, the oldest for ${oldestSeconds} s, where ${longestUnsealedSeconds} s are long. The log line "audit entries cannot be sealed" of a worker of queue wallet says why.`,
      )
    : ok('audit log', `${waiting} entries wait to be sealed, the oldest for ${oldestSeconds} s`);
}

const isBitcoin = (chain: string | undefined) => chain?.startsWith('bip122:') ?? false;

function sum(signs: readonly VitalSign[], name: string): number {
  return signs.reduce((total, { sign, value }) => (sign === name ? total + value : total), 0);
}

/** Several findings, or the one that they could not be made. */
async function several(check: string, work: () => Promise<Finding[]>): Promise<Finding[]> {
  let found: Finding[] = [];
  const first = await look(check, todo, async () => {
    found = await work();
    return found[0]!;
  });
  return found.length === 0 ? [first] : found;
}
