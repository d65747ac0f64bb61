import { readdirSync, readFileSync } from 'node:fs';

/** Unit of the times in /proc/PID/stat on Linux: USER_HZ is 100 on every architecture that Node runs on. */
const MS_PER_TICK = 10;
const BYTES_PER_KB = 1024;

/** The stack's processes by what they are, with those that they have started themselves. */
const kinds: readonly (readonly [name: string, command: RegExp])[] = [
  ['api', /\bapi\/main\.ts/],
  ['worker', /\bworker\/main\.ts/],
  ['signer', /\bsigner\/main\.ts/],
  ['postgres', /\/postgres\b/],
  ['temporal', /\bserver start-dev\b/],
  ['anvil', /\/anvil\b/],
];

/** Memory of one part of the stack. Pages that its processes share count once. */
export interface Memory {
  readonly rssMb: number;
  /** Sum of what each process ever had to itself; processes that have ended are not in it. */
  readonly peakMb: number;
}

interface Group {
  readonly name: string;
  readonly pids: readonly number[];
}

/** True where the figures below can be had. */
const canReadProcesses = process.platform === 'linux';

/** Memory by part, in the order of start; `signer 1`, `worker 1` and so on one by one. Empty but on Linux. */
export function readMemory(): Map<string, Memory> {
  return new Map(groups().map(({ name, pids }) => [name, memoryOf(pids)]));
}

/** CPU time that each part has used since its start, in milliseconds, system time included. Empty but on Linux. */
export function readCpuMs(): Map<string, number> {
  return new Map(groups().map(({ name, pids }) => [name, pids.reduce((sum, pid) => sum + cpuMsOf(pid), 0)]));
}

function groups(): Group[] {
  if (!canReadProcesses) return [];
  const parents = new Map(allPids().map((pid) => [pid, parentOf(pid)]));
  const childrenOf = (parent: number) => [...parents].filter(([, ppid]) => ppid === parent).map(([pid]) => pid);
  const withDescendants = (pid: number): number[] => [pid, ...childrenOf(pid).flatMap(withDescendants)];
  const own = childrenOf(process.pid).toSorted((a, b) => a - b);
  return kinds.flatMap(([name, command]) => {
    const found = own.filter((pid) => command.test(read(pid, 'cmdline').replaceAll('\0', ' ')));
    return found
      .map((pid, index) => ({
        name: found.length > 1 ? `${name} ${partyOf(pid) ?? index + 1}` : name,
        pids: withDescendants(pid),
      }))
      .toSorted((a, b) => a.name.localeCompare(b.name));
  });
}

function allPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** Empty when the process has ended meanwhile. */
function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

/** Of a signer. */
function partyOf(pid: number): string | undefined {
  return /(?:^|\0)PURSER_SIGNER_PARTY=(\d)/.exec(read(pid, 'environ'))?.[1];
}

/** Fields of /proc/PID/stat from the third on; the second, the name, may hold spaces. Source: proc_pid_stat(5). */
function stat(pid: number): string[] {
  return read(pid, 'stat')
    .replace(/^.*\) /s, '')
    .split(' ');
}

function parentOf(pid: number): number {
  return Number(stat(pid)[1]);
}

function cpuMsOf(pid: number): number {
  const fields = stat(pid);
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * MS_PER_TICK;
}

function memoryOf(pids: readonly number[]): Memory {
  const each = pids.map((pid) => {
    const status = read(pid, 'status');
    const bytes = (name: string) =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * BYTES_PER_KB;
    // What may be shared with the others; it only grows, so the peak of the rest is what is left of the peak.
    const shared = pids.length > 1 ? bytes('RssFile') + bytes('RssShmem') : 0;
    return { shared, own: bytes('VmRSS') - shared, ownPeak: bytes('VmHWM') - shared };
  });
  const shared = Math.max(0, ...each.map((one) => one.shared));
  const mb = (key: 'own' | 'ownPeak') => (shared + each.reduce((sum, one) => sum + one[key], 0)) / 1e6;
  return { rssMb: mb('own'), peakMb: mb('ownPeak') };
}
