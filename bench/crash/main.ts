// npm run crash: brings up a stack of its own, pays, and has everything go wrong meanwhile; then holds what the service
// says against the chain. A fault stops the run and leaves the logs.
import { fail, printResult, readCommandLine, usageStatus } from '../../shared/command-line.ts';
import { describeBitcoinFault } from './bitcoin-plan.ts';
import { describeFault, faultNames, planRound } from './plan.ts';
import { roundSeed } from './random.ts';
import { addRecovery, describeRecovery, killKind, measureRecovery } from './recovery.ts';
import { addCounts, addResult, type Entry, readProduct } from './results.ts';
import { runRounds } from './run.ts';
import type { RoundResult } from './run-round.ts';
import { startCrashWorld } from './world.ts';

const defaultRounds = 20;
const defaultInFlight = 3;

const USAGE = `Usage: npm run crash [-- --rounds N] [--seed S] [--round-seed S] [--only FAULT[,FAULT …]] [--in-flight N] [--keep-going]
                     [--bitcoin] [--json]

  --rounds N        rounds to play; default ${defaultRounds}
  --seed S          decides load and faults of every round; default: one drawn, and printed
  --round-seed S    plays the one round with this seed, as printed for each round
  --only FAULTS     only these: ${faultNames.join(', ')}
  --in-flight N     rounds at once: payments of one are waited for while the next one strikes; default ${defaultInFlight}
  --keep-going      go on after a fault
  --bitcoin         with payments on a Bitcoin chain in every round, whose node is killed and whose blocks are replaced
  --json            prints the sums as one JSON value, and each round on the error output
  --help            this text

  Exit status: 0 no fault, 1 a fault or a failure, 2 the command line is wrong.
  Results add up in bench/crash/results.json by commit, unless the product's files changed during the run.
`;

async function main(): Promise<number> {
  const values = readCommandLine(USAGE, {
    options: {
      rounds: { type: 'string', default: String(defaultRounds) },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      'round-seed': { type: 'string' },
      only: { type: 'string', default: '' },
      'in-flight': { type: 'string', default: String(defaultInFlight) },
      'keep-going': { type: 'boolean', default: false },
      bitcoin: { type: 'boolean', default: false },
    },
  });
  const only = values.only.split(',').filter((name) => name !== '');
  for (const name of only)
    if (!faultNames.includes(name))
      fail(`--only ${name}: faults are ${faultNames.join(', ')}.`, { status: usageStatus });
  const seed = wholeNumber('--seed', values.seed);
  const rounds = wholeNumber('--rounds', values.rounds);
  const seeds = values['round-seed']
    ? [wholeNumber('--round-seed', values['round-seed'])]
    : Array.from({ length: rounds }, (_, round) => roundSeed(seed, round));
  out = values.json ? process.stderr : process.stdout;
  return play({
    seed,
    json: values.json ?? false,
    plans: seeds.map((each) => planRound(each, { only, bitcoin: values.bitcoin })),
    inFlight: Math.max(wholeNumber('--in-flight', values['in-flight']), 1),
    keepsGoing: values['keep-going'],
    bitcoin: values.bitcoin,
    replay: [...(only.length > 0 ? [` --only ${only.join(',')}`] : []), ...(values.bitcoin ? [' --bitcoin'] : [])].join(
      '',
    ),
  });
}

interface Play {
  readonly seed: number;
  readonly json: boolean;
  readonly plans: readonly ReturnType<typeof planRound>[];
  readonly inFlight: number;
  readonly keepsGoing: boolean;
  readonly bitcoin: boolean;
  /** What else is needed to play a round again. */
  readonly replay: string;
}

/** @returns the exit code: 1 when anything was wrong */
async function play({ seed, json, plans, inFlight, keepsGoing, bitcoin, replay }: Play): Promise<number> {
  const ending = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => ending.abort());
  // dev/bootstrap.mjs holds the other end of this channel; it closes with it, also after kill -9.
  if (process.channel) {
    process.on('disconnect', () => ending.abort());
    process.channel.unref();
  }
  const before = readProduct();
  print(`${plans.length} rounds, seed ${seed}. Bringing up a stack …`);
  const world = await startCrashWorld({ bitcoin });
  const from = performance.now();
  let sum: Entry = {
    ...before,
    ...{ rounds: 0, payments: 0, faults: 0, kills: {}, strikes: {}, seconds: 0 },
    recoveryMs: { next: {}, all: {} },
  };
  let isFaulty = false;
  try {
    const late = await runRounds(world, {
      plans,
      inFlight,
      label: `crash-${seed}`,
      signal: ending.signal,
      onResult(result) {
        sum = addRound(sum, result);
        printRound(result, { replay });
        isFaulty ||= result.problems.length > 0;
        return keepsGoing || !isFaulty;
      },
    });
    for (const problem of late) print(`  ✗ ${problem}`);
    isFaulty ||= late.length > 0;
    sum = { ...sum, faults: sum.faults + late.length, seconds: Math.round((performance.now() - from) / 1000) };
  } finally {
    await world.stop({ keepFiles: isFaulty });
  }
  if (isFaulty) print(`The logs are in ${world.stack.logDir}.`);
  printSum(sum);
  const alone = world.stack.deaths.filter(({ how }) => how !== 'SIGKILL').map(({ part, how }) => `${part} (${how})`);
  if (alone.length > 0) print(`Ended by themselves: ${alone.join(', ')}.`);
  if (readProduct().product !== before.product)
    print('The sources changed meanwhile: nothing is added to the results.');
  else if (sum.rounds > 0) {
    const { rounds, faults } = addResult(sum);
    print(`This product so far: ${rounds} rounds, ${faults} faults (bench/crash/results.json).`);
  }
  if (json) printResult({ ...sum, seed }, { json });
  return isFaulty ? 1 : 0;
}

function addRound(sum: Entry, result: RoundResult): Entry {
  const { round, problems, stored, bitcoin, x402, kills } = result;
  const count = (names: readonly string[]) => names.reduce((counts, name) => addCounts(counts, { [name]: 1 }), {});
  return {
    ...sum,
    rounds: sum.rounds + 1,
    payments: sum.payments + stored.length + bitcoin.length + x402.length,
    faults: sum.faults + (problems.length > 0 ? 1 : 0),
    kills: addCounts(sum.kills, count(kills.map(({ part }) => killKind(part)))),
    strikes: addCounts(
      sum.strikes,
      count([
        ...round.plan.faults.map((fault) => (fault.kind === 'rpc' ? `rpc ${fault.trouble.name}` : fault.kind)),
        ...(round.plan.bitcoin?.faults ?? []).map(({ kind }) => `bitcoin ${kind}`),
      ]),
    ),
    recoveryMs: addRecovery(sum.recoveryMs, measureRecovery(result)),
  };
}

function printRound({ round, problems, stored, bitcoin, x402, ms }: RoundResult, { replay }: { replay: string }): void {
  const { number, plan } = round;
  const count = (status: string) => stored.filter((row) => row.status === status).length;
  const faults = [
    ...plan.faults.map((fault) => `${describeFault(fault)} @${fault.atMs}`),
    ...(plan.bitcoin?.faults ?? []).map((fault) => `${describeBitcoinFault(fault)} @${fault.atMs}`),
  ].join(', ');
  const codes = stored
    .flatMap(({ failure_code }) => failure_code ?? [])
    .reduce((sum, code) => addCounts(sum, { [code]: 1 }), {});
  const kinds = x402
    .map(({ settlement, failure_code }) => settlement ?? failure_code ?? 'open')
    .reduce((sum, kind) => addCounts(sum, { [kind]: 1 }), {});
  const outcomes = bitcoin
    .map(({ status, failure_code }) => failure_code ?? status)
    .reduce((sum, outcome) => addCounts(sum, { [outcome]: 1 }), {});
  const load = [
    `${count('confirmed')} of ${plan.payments.length} confirmed`,
    ...(listCounts(codes) ? [listCounts(codes)] : []),
    ...(bitcoin.length > 0 ? [`Bitcoin: ${listCounts(outcomes)}`] : []),
    ...(listCounts(kinds) ? [`x402: ${listCounts(kinds)}`] : []),
  ].join(', ');
  print(
    `${problems.length > 0 ? '✗' : '✓'} round ${number}, seed ${plan.seed}: ${load}; ${faults}; ${(ms / 1000).toFixed(1)} s`,
  );
  for (const problem of problems) print(`  ✗ ${problem}`);
  if (problems.length > 0) print(`  Again: npm run crash -- --round-seed ${plan.seed}${replay}`);
}

function printSum({ rounds, payments, faults, kills, strikes, seconds, recoveryMs }: Entry): void {
  print(`${rounds} rounds, ${payments} payments, ${faults} rounds with faults, in ${seconds} s.`);
  print(`Killed: ${listCounts(kills) || 'nobody'}. Struck: ${listCounts(strikes)}.`);
  print('From a kill on:');
  for (const line of describeRecovery(recoveryMs)) print(`  ${line}`);
}

function listCounts(counts: object): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ');
}

function wholeNumber(option: string, value: string): number {
  if (/^\d{1,10}$/.test(value)) return Number(value);
  return fail(`${option} ${value}: give a whole number.`, { status: usageStatus });
}

/** With `--json` the output belongs to the result. */
let out: NodeJS.WriteStream = process.stdout;

function print(line: string): void {
  out.write(`${line}\n`);
}

try {
  process.exit(await main());
} catch (error) {
  fail(String((error as Error).stack), { summary: (error as Error).message });
}
