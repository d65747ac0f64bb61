import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/** How to run Postgres programs: they refuse to run as root. */
export interface PostgresUser {
  /** Owner of the cluster's files; undefined when we are not root and it is ourselves. */
  owner?: { uid: number; gid: number };
  /** User and group for the child process. */
  ids: { uid?: number; gid?: number };
  /** Words to put before the command. */
  prefix: string[];
}

/**
 * Whom Postgres runs as. An ordinary user: himself. Root: the owner of the data directory where there is one, else
 * `postgres` where the machine has that user, else `nobody`; no user is created. When that user may not
 * enter the folders on the way (a clone below /root, say), `setpriv` gives it the capability to do so.
 */
export function postgresUser(o: { dataDir: string; programDir: string }): PostgresUser {
  if (process.getuid?.() !== 0) return { ids: {}, prefix: [] };
  const owner = existingOwner(o.dataDir) ?? account('postgres') ?? account('nobody') ?? noAccount();
  if ([o.programDir, dirname(o.dataDir)].every((path) => othersMayEnter(path)))
    return { owner, ids: owner, prefix: [] };
  const setpriv = ['/usr/bin/setpriv', '/bin/setpriv'].find((path) => existsSync(path));
  if (!setpriv) {
    throw new Error(
      `Postgres cannot run as root, and the user it runs as may not enter ${o.programDir}; install util-linux (setpriv) or put the project where everybody may read it.`,
    );
  }
  const capability = ['--inh-caps=+dac_override', '--ambient-caps=+dac_override'];
  const become = [`--reuid=${owner.uid}`, `--regid=${owner.gid}`, '--clear-groups'];
  return { owner, ids: {}, prefix: [setpriv, ...become, ...capability, '--'] };
}

function existingOwner(dataDir: string): { uid: number; gid: number } | undefined {
  const stat = statSync(dataDir, { throwIfNoEntry: false });
  return stat && stat.uid !== 0 ? { uid: stat.uid, gid: stat.gid } : undefined;
}

function account(name: string): { uid: number; gid: number } | undefined {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith(`${name}:`));
  const [, , uid, gid] = line?.split(':') ?? [];
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}

function noAccount(): never {
  throw new Error(
    'Postgres cannot run as root; create a user named postgres, or run this command as an ordinary user.',
  );
}

/** True when somebody who is neither owner nor in the group may pass every folder on the way. */
function othersMayEnter(path: string): boolean {
  for (let folder = path; ; folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}
