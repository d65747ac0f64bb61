import { scopes } from '../../shared/domain/access.ts';
import type { Command, Commands } from './command.ts';

const prefix = 'npm run admin --';

/** What each group of commands does, in words. */
const words = `  account create makes an account and its first API key, and prints both; the key is shown this once only. --owner may
  sign in as its owner, and is whom the built-in policy templates ask. The account's signing key is made by the three
  signers when its first agent is created.
  account set changes the settings that are given and prints them. --default-deny on: a payment of an agent without any
  policy is denied. --owner: whom the built-in policy templates ask. --policy-writes bearer: only people who are signed
  in change policies and templates. --ip-allowlist: networks from which the account may be used, off for everywhere;
  plans growth and enterprise only.
  plan set puts an account on a plan. An account on the plan enterprise may have limits of its own: requests of each key
  and each person a minute, a day, and at once.
  key create prints a key, this once only. --agent: it does that agent's business and no other. --scopes: what it may do
  (${scopes.join(', ')}); all of that by default.
  key list prints the keys of an account, never the keys themselves; key delete deletes one. It is refused at once.
  revoke-all deletes all keys of an account and signs everybody out of it, at once. Its members can sign in again.
  member invite lets somebody sign in who has the address; member set changes the role, member remove ends membership and
  sessions. The last owner who has joined stays.
  approval approve and reject decide the approval ID (apr_…) for one of its approvers, who cannot. In production only
  with PURSER_OPERATOR_APPROVALS=on.
  freeze stops what is signed: all of it, or of one account or agent. Within a second nothing new is signed; what was
  signed is followed to its end, payments are still taken and wait. unfreeze lifts it, and payments go on; a freeze of an
  operator is lifted by operators alone. Both wait until all three signers have confirmed it (--wait, 30 seconds by
  default) and end with status 1 if they have not. frozen lists what is frozen.
  reconcile is for after a restore: it freezes all, compares the database with what the signers signed, with Temporal and
  with the chains, prints what it mended and what you must decide, and lifts the freeze unless something stands against
  that, or a person ordered it: then it ends with 1. --dry-run on: changes nothing. --since: compares what was signed since
  then as well; the last two days always. --database kept: it lost nothing, so no address is passed over. --keep-frozen on:
  you lift the freeze yourself. It tells on stderr how far it is.
  doctor checks what can be checked of an installation: database, Temporal, workers, signers, nodes, mail, identity
  provider, keys. It looks at what the environment tells it; give it that of the api and of all workers.
`;

const rules = `  The result is printed for people, with --json as one JSON value: then a failure, too, is told on stdout, as
  {"error":{"code","message"}}. Progress and words are on the error output. What changes something is in the audit log of
  the account with your name. --help after a command shows that command alone.
  Exit status: 0 done, 1 failed or something is wrong, 2 the command line or the configuration is wrong.
  Needs DATABASE_URL and PURSER_ENV, as the api has them; with TEMPORAL_ADDRESS a decided payment is told at once.
`;

/** All commands, and what they do. */
export function usageOf(commands: Commands): string {
  const lines = Object.entries(commands).map(([name, command]) => `${prefix} ${synopsis(name, command)}`);
  return `Usage: ${lines.join('\n       ')}\n\n${words}\n${rules}`;
}

/** One command, with what is said of its group. */
export function helpOf(name: string, commands: Commands): string {
  const [group = name] = name.split(' ');
  const said = groupsOf(commands).filter((text) =>
    new RegExp(`^ {2}${group}\\b|\\b${group} (?:lifts|lists)`).test(text),
  );
  return `Usage: ${prefix} ${synopsis(name, commands[name]!)} [--json]\n\n${said.join('\n')}\n\n${rules}`;
}

/** `words`, split where a sentence begins with the word of a command. */
function groupsOf(commands: Commands): string[] {
  const first = [...new Set(Object.keys(commands).map((name) => name.split(' ')[0]))];
  return words.trimEnd().split(new RegExp(`(?<=\\.)\\n(?= {2}(?:${first.join('|')})\\b)`));
}

function synopsis(name: string, { options, required = [], positional }: Command): string {
  const given = Object.entries(options).map(([option, value]) =>
    required.includes(option) ? `--${option} ${value}` : `[--${option} ${value}]`,
  );
  return [name, ...(positional === undefined ? [] : [positional.toUpperCase()]), ...given].join(' ');
}
