import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** Names hold the id of the process that made them, so that those of a process that is gone can be removed. */
const PREFIX = 'purser-test-';
/** A network card that nobody has. */
const NOBODY = '02:00:00:00:00:01';
/** A line on which one message of a signature takes seconds, and a question about health does not. */
const THIN = ['tbf', 'rate', '64kbit', 'burst', '1600', 'latency', '60s'];

/** How the line into a namespace is: good; narrow; without a trace of what is sent; or down. */
export type LineState = 'good' | 'thin' | 'lossy' | 'down';

/** A network of its own for some processes, with one line to ours and no way to anywhere else. */
export interface NetworkNamespace {
  /** In front of a command that is to run in it. */
  readonly exec: readonly string[];
  /** Address inside, which is reached from outside. */
  readonly host: string;
  become(state: LineState): void;
  /** What its processes have tried so far, by the kernel's own count. */
  counters(): { connectionsOpened: number; connectionsTaken: number; datagramsSent: number; unroutable: number };
  remove(): void;
}

/** Why none can be made here; undefined where they can. */
export const namespacesMissing: string | undefined = (() => {
  if (process.platform !== 'linux') return 'needs Linux';
  if (process.getuid?.() !== 0) return 'needs root';
  try {
    const probe = createNamespace(0);
    probe.become('thin');
    probe.remove();
    return undefined;
  } catch {
    return 'needs iproute2 and the right to make network namespaces';
  }
})();

/** @param index below 100, another one for each namespace of a process */
export function createNamespace(index: number): NetworkNamespace {
  removeLeftOvers();
  const name = `${PREFIX}${process.pid}-${index}`;
  const line = `pt${process.pid % 100_000}x${index}`;
  const net = `10.${100 + index}.${process.pid % 256}`;
  const [ours, host] = [`${net}.1`, `${net}.2`];
  ip('netns', 'add', name);
  process.once('exit', () => remove());
  ip('link', 'add', line, 'type', 'veth', 'peer', 'name', 'inside', 'netns', name);
  ip('addr', 'add', `${ours}/30`, 'dev', line);
  ip('link', 'set', line, 'up');
  ip('-n', name, 'addr', 'add', `${host}/30`, 'dev', 'inside');
  ip('-n', name, 'link', 'set', 'inside', 'up');
  ip('-n', name, 'link', 'set', 'lo', 'up');
  const undo = {
    good: () => undefined,
    thin: () => run('tc', 'qdisc', 'del', 'dev', line, 'root'),
    lossy: () => ip('neigh', 'del', host, 'dev', line),
    down: () => ip('link', 'set', line, 'up'),
  };
  const make = {
    good: () => undefined,
    thin: () => run('tc', 'qdisc', 'add', 'dev', line, 'root', ...THIN),
    // What is sent goes to a card that nobody has. Neither side hears of it.
    lossy: () => ip('neigh', 'replace', host, 'lladdr', NOBODY, 'dev', line, 'nud', 'permanent'),
    down: () => ip('link', 'set', line, 'down'),
  };
  let state: LineState = 'good';
  function remove(): void {
    // The line by itself too: a process that still runs inside would keep the network, and so the line.
    if (existsSync(`/sys/class/net/${line}`)) ip('link', 'del', line);
    if (existsSync(`/var/run/netns/${name}`)) ip('netns', 'del', name);
  }
  return {
    exec: ['ip', 'netns', 'exec', name],
    host,
    become(next) {
      undo[state]();
      make[next]();
      state = next;
    },
    counters() {
      const snmp = run('ip', 'netns', 'exec', name, 'cat', '/proc/net/snmp');
      return {
        connectionsOpened: counter(snmp, 'Tcp', 'ActiveOpens'),
        connectionsTaken: counter(snmp, 'Tcp', 'PassiveOpens'),
        datagramsSent: counter(snmp, 'Udp', 'OutDatagrams'),
        unroutable: counter(snmp, 'Ip', 'OutNoRoutes'),
      };
    },
    remove,
  };
}

function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

function ip(...args: string[]): string {
  return run('ip', ...args);
}

/** A line of names and a line of values for each protocol. */
function counter(snmp: string, protocol: string, name: string): number {
  const [names, values] = snmp.split('\n').filter((line) => line.startsWith(`${protocol}: `));
  return Number(values!.split(' ')[names!.split(' ').indexOf(name)]);
}

/** After kill -9 of a test process. */
function removeLeftOvers(): void {
  for (const line of ip('netns', 'list').split('\n')) {
    const [name, pid] = /^purser-test-(\d+)-\d+/.exec(line) ?? [];
    if (name && !existsSync(`/proc/${pid}`)) ip('netns', 'del', name);
  }
}
