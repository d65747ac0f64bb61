import type { Report } from './report.ts';

type Row = readonly [first: string, ...figures: string[]];

const oneDigit = (value: number) => value.toFixed(1);
const twoDigitsBelow10 = (value: number) => value.toFixed(value < 10 ? 2 : 1);

/** A report for a reader: one table, all columns aligned. */
export function renderTable(report: Report): string {
  const {
    machine,
    load,
    decisions,
    payments,
    x402,
    families,
    webhooks,
    signatures,
    audit,
    limits,
    lists,
    operations,
    recovery,
  } = report;
  const rows: (Row | undefined)[] = [
    ...(payments ? [...paymentRows(payments), undefined] : []),
    ...(x402 ? [...x402Rows(x402), undefined] : []),
    ...(families ? [...familyRows(families), undefined] : []),
    ...(webhooks ? [...partRows('webhooks, ms', 'webhooks, many', webhooks), undefined] : []),
    ...(signatures ? [...partRows('signers, ms', 'signers, many', signatures), undefined] : []),
    ...(audit ? [...partRows('audit log, ms', 'audit log, many', audit), undefined] : []),
    ...(limits ? [...partRows('limits, ms', 'limits, 20 at once', limits), undefined] : []),
    ...(lists ? [...partRows('lists, ms', 'lists, many', lists), undefined] : []),
    ...(operations ? [...partRows('operations, ms', 'operations, many', operations), undefined] : []),
    ...(recovery ? [...durationRows('kill -9 → confirmed, ms', { durations: recovery }), undefined] : []),
    ...(decisions ? decisionRows(decisions) : []),
  ];
  return [
    `${machine.cores} × ${machine.cpu}, Node ${machine.node}, ${payments ? `engine ${payments.engine}, ` : ''}load ${oneDigit(load.before)} → ${oneDigit(load.after)}`,
    ...(report.quick ? ['A quick run: too few samples to compare with another one.'] : []),
    '',
    ...align(rows),
    '',
    ...(payments
      ? [
          'POST → decision: the answer of the POST. hash: hash and signed bytes are stored (announced by Postgres); they are sent next.',
          'confirmed: GET /transactions/{id}, asked every 5 ms, says so. The client runs on the same machine.',
        ]
      : []),
    ...(x402
      ? [
          'x402 → signature: the answer of the POST, with the header in it; the target answers at once, on this machine. The probe: from its connection to the last byte of its answer.',
        ]
      : []),
    ...(families
      ? [
          'floor of the families: the same code without a service and signers: asks the chain, builds and signs. Tron: a double of a node, with free bandwidth for the first two payments.',
          ...families.skipped.map((why) => `Not measured: ${why}`),
        ]
      : []),
    ...(operations
      ? [
          'traces on: a second stack beside the first, which sends its traces to a collector on this machine that only takes them.',
        ]
      : []),
    ...(recovery
      ? [
          'kill -9 → confirmed: of a payment that is asked for at that moment, by a client that insists; whatever dies is started again at once.',
        ]
      : []),
    ...(decisions
      ? [
          'decision: the first evaluation by itself, from the lock to the commit; past: settled payments of the last 30 days.',
        ]
      : []),
    '',
  ].join('\n');
}

type Payments = NonNullable<Report['payments']>;
type Families = NonNullable<Report['families']>;
type Figures = NonNullable<Report['decisions']>;

function paymentRows(payments: Payments): (Row | undefined)[] {
  return [
    ...durationRows('one at a time, ms', payments),
    undefined,
    ...throughputRows('50 in parallel, USDC', payments),
    undefined,
    ['process', 'MB idle', 'MB peak', 'CPU ms/payment'],
    ...processRows(payments),
    undefined,
    ...ratioRows(payments),
  ];
}

function x402Rows(x402: Figures): (Row | undefined)[] {
  return [
    ...durationRows('x402 one at a time, ms', x402),
    undefined,
    ...throughputRows('20 in parallel', x402),
    undefined,
    ...ratioRows(x402),
  ];
}

function familyRows(families: Families): (Row | undefined)[] {
  return [
    ...durationRows('families one at a time, ms', families),
    undefined,
    ['cost of a payment', 'n', 'median', 'most'],
    ...Object.entries(families.costs).map(([name, { n, median, most }]): Row => [name, String(n), median, most]),
    undefined,
    ...ratioRows(families),
  ];
}

function partRows(title: string, throughputTitle: string, part: Figures): (Row | undefined)[] {
  return [
    ...durationRows(title, part),
    undefined,
    ...(Object.keys(part.throughput).length > 0 ? [...throughputRows(throughputTitle, part), undefined] : []),
    ...ratioRows(part),
  ];
}

function decisionRows(decisions: Figures): (Row | undefined)[] {
  return [
    ...durationRows('decisions one at a time, ms', decisions),
    undefined,
    ...throughputRows('50 decisions in parallel', decisions),
    undefined,
    ...ratioRows(decisions),
  ];
}

function durationRows(title: string, { durations }: Pick<Figures, 'durations'>): Row[] {
  return [
    [title, 'n', 'p50', 'p95', 'p99'],
    ...Object.entries(durations).map(
      ([name, { n, p50, p95, p99 }]): Row => [name, String(n), ...[p50, p95, p99].map(twoDigitsBelow10)],
    ),
  ];
}

function throughputRows(title: string, { throughput }: Figures): Row[] {
  return [
    [title, 'n', 'seconds', 'per s'],
    ...Object.entries(throughput).map(
      ([name, { done, seconds, perSecond }]): Row => [name, String(done), oneDigit(seconds), oneDigit(perSecond)],
    ),
  ];
}

function ratioRows({ ratios }: Figures): Row[] {
  return [
    ['ratio of p50', 'value', 'aim', ''],
    ...ratios.map(
      ({ name, value, aim, isMet }): Row => [
        name,
        value.toFixed(2),
        aim === undefined ? '' : `≤ ${aim}`,
        aim === undefined ? '' : isMet ? 'met' : 'MISSED',
      ],
    ),
  ];
}

function processRows({ memory, cpuMsPerPayment }: Payments): Row[] {
  const parts = Object.entries(memory);
  if (parts.length === 0) return [['not on this system: it needs /proc', 'n/a', 'n/a', 'n/a']];
  const row = (name: string, idle: number, peak: number, cpu: number): Row => [
    name,
    idle.toFixed(0),
    peak.toFixed(0),
    oneDigit(cpu),
  ];
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  return [
    ...parts.map(([name, { rssMb, peakMb }]) => row(name, rssMb, peakMb, cpuMsPerPayment[name] ?? 0)),
    row(
      'together',
      sum(parts.map(([, { rssMb }]) => rssMb)),
      sum(parts.map(([, { peakMb }]) => peakMb)),
      sum(Object.values(cpuMsPerPayment)),
    ),
  ];
}

/** The first column to the left, the others to the right; undefined is an empty line. */
function align(rows: readonly (Row | undefined)[]): string[] {
  const widths: number[] = [];
  for (const row of rows)
    row?.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    });
  return rows.map((row) =>
    (row ?? [])
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!)))
      .join('  ')
      .trimEnd(),
  );
}
