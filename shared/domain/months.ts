/** What one run of the maintenance schedule did about the tables that are kept by month. Partitions by their names. */
export interface MonthsResult {
  readonly made: readonly string[];
  readonly dropped: readonly string[];
  /** Months that are older than asked for, and still needed: why. */
  readonly staying: readonly string[];
  /** Rows that came before their month had a place of its own; they lie with the others, and retention passes them over. */
  readonly misplaced: readonly MisplacedRows[];
}

export interface MisplacedRows {
  readonly table: string;
  /** `2026-11`. */
  readonly month: string;
  readonly count: number;
}

/** A run in words, for the operator. */
export function describeMonths({ made, dropped, staying, misplaced }: MonthsResult): string {
  const sentences = [
    ...(made.length > 0 ? [`Made ${made.join(', ')}.`] : []),
    ...(dropped.length > 0 ? [`Dropped ${dropped.join(', ')}.`] : []),
    ...staying.map((why) => `${why}.`),
    ...misplaced.map(
      ({ table, month, count }) =>
        `${count} rows of ${table} of ${month} lie in ${table}_other and will not be dropped.`,
    ),
  ];
  return sentences.length === 0 ? 'Every month has its place, and none is too old.' : sentences.join('\n');
}
