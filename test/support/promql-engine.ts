import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const source = fileURLToPath(new URL('./promql', import.meta.url));
const cacheRoot = process.env.PURSER_CACHE_DIR ?? fileURLToPath(new URL('../../.cache', import.meta.url));
/** Downloads Prometheus' modules and compiles them, the first time. */
const buildTimeoutMs = 5 * 60_000;

export interface Series {
  /** `__name__` among them. */
  readonly labels: Readonly<Record<string, string>>;
  /** Milliseconds since 1970, and the value. */
  readonly samples: readonly (readonly [number, number])[];
}
export interface Question {
  readonly expr: string;
  readonly atMs: number;
}
export interface Found {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: string;
}

/** Prometheus' own engine over series in memory. */
export interface PromqlEngine {
  /** @returns what each expression gives. @throws Error where one cannot be evaluated */
  ask(p: { series: readonly Series[]; questions: readonly Question[] }): Promise<Found[][]>;
}

/** Builds the engine with Go on first use. @returns undefined where there is no Go, or its modules cannot be had */
export function promqlEngine(): PromqlEngine | undefined {
  const digest = createHash('sha256');
  for (const name of ['main.go', 'go.mod', 'go.sum']) digest.update(readFileSync(join(source, name)));
  const program = join(cacheRoot, `promql-${digest.digest('hex').slice(0, 12)}`);
  if (!existsSync(program)) {
    mkdirSync(cacheRoot, { recursive: true });
    const made = `${program}.${process.pid}`;
    const built = spawnSync('go', ['build', '-trimpath', '-o', made, '.'], { cwd: source, timeout: buildTimeoutMs });
    if (built.status !== 0) return undefined;
    renameSync(made, program);
  }
  return { ask: (asked) => run(program, asked) };
}

async function run(
  program: string,
  asked: { series: readonly Series[]; questions: readonly Question[] },
): Promise<Found[][]> {
  const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify(asked));
  const chunks: Buffer[] = [];
  for await (const chunk of child.stdout) chunks.push(chunk as Buffer);
  const answers = JSON.parse(Buffer.concat(chunks).toString('utf8')) as { found: Found[] | null; error?: string }[];
  return answers.map(({ found, error }, index) => {
    if (error !== undefined || found === null) throw new Error(`${asked.questions[index]!.expr}: ${error}`);
    return found;
  });
}
