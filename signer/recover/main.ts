// npm run recover -- --backup FILE --backup FILE --identity FILE …
// For the day when two signers are lost for good and their backups are what is left. Run it on a machine that is offline
// but for the chain's endpoint, and that nobody uses afterwards: it does what the service never does.
import { parseArgs } from 'node:util';
import { type Address, getAddress, isAddress, zeroAddress } from 'viem';
import { readAgeIdentities } from '../backup/identities.ts';
import { type RecoveredKey, readBackupShares, recoverKeys } from './recover-keys.ts';
import { connectChain, type SweepTerms, sweepWallet, type Transfer } from './sweep.ts';
import { deriveWallets } from './wallets.ts';

const USAGE = `usage: npm run recover -- --backup FILE --backup FILE --identity FILE [--identity FILE]
    [--key KEY] [--path m/44/60/0/0] [--indexes 0-19]
    [--to ADDRESS --rpc URL [--token ADDRESS]… [--reserve WEI] [--send]]

Puts the keys of accounts together from the backups of two signers, in the memory of this process, which the service
itself never does, and lists their wallets. With --to and --rpc it says what it would transfer there; with --send as well
it does. The two backups must hold shares of the same epoch: a refresh makes a new one. Which epoch does not matter: an
older pair gives the same keys and the same addresses. So whoever has an old pair has the keys for ever: that is why
backups are written anew after each refresh, and why old copies are to be destroyed.`;

const INDEXES_MAX = 10_000;

/** The command line is wrong. */
class UsageError extends Error {}

interface Options {
  backups: readonly [string, string];
  identities: string[];
  keyId: string | undefined;
  path: string;
  indexes: { first: number; last: number };
  rpcUrl: string | undefined;
  terms: SweepTerms | undefined;
}

function readOptions(args: string[]): Options {
  const { values } = parse(args);
  const [first, second, ...more] = values.backup ?? [];
  if (!first || !second || more.length > 0) throw new UsageError('--backup must be given twice, for two signers');
  if (!values.identity) throw new UsageError('--identity is missing: the file of the key that opens the backups');
  if (!/^m(\/\d{1,10})*$/.test(values.path))
    throw new UsageError('--path must be like m/44/60/0/0, without hardened steps');
  const [, from, to = from] = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(values.indexes) ?? [];
  const indexes = { first: Number(from), last: Number(to) };
  if (!(indexes.last >= indexes.first && indexes.last - indexes.first < INDEXES_MAX)) {
    throw new UsageError(`--indexes must be like 0-19, and at most ${INDEXES_MAX} of them`);
  }
  if ((values.to === undefined) !== (values.rpc === undefined)) throw new UsageError('--to and --rpc go together');
  if (values.send && values.to === undefined) throw new UsageError('--send needs --to and --rpc');
  if (!/^\d{1,30}$/.test(values.reserve)) throw new UsageError('--reserve must be a number of wei');
  return {
    backups: [first, second],
    identities: values.identity.flatMap((file) => readAgeIdentities(file)),
    keyId: values.key,
    path: values.path,
    indexes,
    rpcUrl: values.rpc,
    terms:
      values.to === undefined
        ? undefined
        : {
            to: readAddress('--to', values.to),
            tokens: (values.token ?? []).map((token) => readAddress('--token', token)),
            reserveWei: BigInt(values.reserve),
            send: values.send,
          },
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        backup: { type: 'string', multiple: true },
        identity: { type: 'string', multiple: true },
        key: { type: 'string' },
        path: { type: 'string', default: 'm/44/60/0/0' },
        indexes: { type: 'string', default: '0-19' },
        to: { type: 'string' },
        rpc: { type: 'string' },
        token: { type: 'string', multiple: true },
        reserve: { type: 'string', default: '0' },
        send: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function readAddress(option: string, text: string): Address {
  if (isAddress(text) && getAddress(text) !== zeroAddress) return getAddress(text);
  throw new UsageError(`${option} must be an address with its checksum, and not zero; ${text} is not`);
}

async function handleKey(key: RecoveredKey, o: Options): Promise<object> {
  const wallets = deriveWallets(key, o);
  key.privateKey.fill(0);
  const { keyId, epoch } = key;
  const listed = wallets.map(({ path, account }) => ({ path, address: account.address }));
  if (!o.terms || !o.rpcUrl) return { keyId, epoch, wallets: listed };
  const client = await connectChain(o.rpcUrl);
  const transfers: Transfer[] = [];
  for (const wallet of wallets) transfers.push(...(await sweepWallet(client, wallet, o.terms)));
  if (transfers.some(({ problem }) => problem)) process.exitCode = 1;
  return { keyId, epoch, chain: `eip155:${client.chain.id}`, sent: o.terms.send, transfers };
}

async function main(args: string[]): Promise<void> {
  if (args.length === 0 || args.includes('--help')) {
    console.log(USAGE);
    return;
  }
  const options = readOptions(args);
  const [first, second] = options.backups;
  const { identities } = options;
  const { recovered, unrecovered } = recoverKeys([
    await readBackupShares({ file: first, identities }),
    await readBackupShares({ file: second, identities }),
  ]);
  const wanted = (key: { keyId: string }) => options.keyId === undefined || key.keyId === options.keyId;
  const keys: object[] = [];
  console.error('The keys are whole in the memory of this process, which they never were before.');
  for (const key of recovered.filter(wanted)) keys.push(await handleKey(key, options));
  if (options.terms && !options.terms.send) console.error('Nothing was sent. With --send these transfers are made.');
  const missing = unrecovered.filter(wanted);
  if (keys.length === 0 && missing.length === 0)
    throw new Error(`the backups have no key ${options.keyId ?? 'at all'}`);
  if (missing.length > 0) process.exitCode = 1;
  console.log(JSON.stringify({ keys, unrecovered: missing }, null, 2));
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  console.error(error instanceof UsageError ? `${message}\n${USAGE}` : message);
  process.exit(error instanceof UsageError ? 2 : 1);
}
