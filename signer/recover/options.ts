import { parseArgs } from 'node:util';
import { familyOf } from '../../shared/chain/families.ts';
import { type Chain, createRegistry, refusedChains } from '../../shared/chain/registry.ts';
import { parseAmount } from '../../shared/domain/money.ts';
import { readAgeIdentities } from '../backup/identities.ts';

export const USAGE = `usage: npm run recover -- --backup FILE --backup FILE --identity FILE [--identity FILE]
    [--key KEY] [--chain CHAIN] [--path m/44/60/0/0] [--indexes 0-19]
    [--to ADDRESS --rpc URL [--token ADDRESS]… [--reserve WEI] [--fee-rate SATOSHIS] [--send]] [--json]

Puts the keys of accounts together from the backups of two signers, in the memory of this process, which the service
itself never does, and lists their wallets. With --to and --rpc it says what it would transfer there; with --send as well
it does. Without --chain it is about EVM chains, which share their wallets; with it about Bitcoin (bip122:…) or Tron
(tron:…). --rpc is the JSON-RPC endpoint of an EVM chain, an Esplora API of Bitcoin, or the HTTP API of a Tron node;
--fee-rate is what Bitcoin's transactions pay for a virtual byte, and asked there if not given. The two backups must hold
shares of the same epoch: a refresh makes a new one. Which epoch does not matter: an older pair gives the same keys and
the same addresses. So whoever has an old pair has the keys for ever: that is why backups are written anew after each
refresh, and why old copies are to be destroyed.

The result is printed for people, with --json as one JSON value: then a failure, too, is told on stdout. Progress is on the
error output. Exit status: 0 done, 1 something failed or is missing, 2 the command line is wrong.`;

const INDEXES_MAX = 10_000;
/** EVM chains share their wallets; which one it is, is asked there. */
const ANY_EVM_CHAIN = 'eip155:1';
const RATE_DECIMALS = 3;

/** The command line is wrong. */
export class UsageError extends Error {}

/** Where the money is to go, and what that may cost. */
export interface SweepOptions {
  rpcUrl: string;
  to: string;
  /** Contracts, in their one written form. */
  tokens: readonly string[];
  /** Left in each wallet of an EVM chain. */
  reserveWei: bigint;
  /** Of Bitcoin; undefined: as much as is asked. */
  satPerKvb: bigint | undefined;
  /** False: nothing is sent, only told. */
  send: boolean;
}

export interface Options {
  backups: readonly [string, string];
  identities: string[];
  keyId: string | undefined;
  /** Undefined: any EVM chain. */
  chain: Chain | undefined;
  /** CAIP-2 id of the chain whose addresses the wallets have. */
  chainId: string;
  path: string;
  indexes: { first: number; last: number };
  sweep: SweepOptions | undefined;
  /** Whether the result is printed as JSON. */
  json: boolean;
}

/** @throws UsageError */
export function readOptions(args: string[]): Options {
  const values = parse(args);
  const [first, second, ...more] = values.backup ?? [];
  if (!first || !second || more.length > 0) throw new UsageError('--backup must be given twice, for two signers');
  if (!values.identity) throw new UsageError('--identity is missing: the file of the key that opens the backups');
  const chain = values.chain === undefined ? undefined : readChain(values.chain);
  const chainId = chain?.id ?? ANY_EVM_CHAIN;
  const path = values.path ?? `m/44/${familyOf(chainId).coinType(chainId)}/0/0`;
  if (!/^m(\/\d{1,10})*$/.test(path)) throw new UsageError('--path must be like m/44/60/0/0, without hardened steps');
  const sweep = readSweep(values, chainId);
  return {
    backups: [first, second],
    identities: values.identity.flatMap((file) => readAgeIdentities(file)),
    keyId: values.key,
    chain,
    chainId,
    path,
    indexes: readIndexes(values.indexes),
    sweep,
    json: values.json,
  };
}

type Values = ReturnType<typeof parse>;

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        backup: { type: 'string', multiple: true },
        identity: { type: 'string', multiple: true },
        key: { type: 'string' },
        chain: { type: 'string' },
        path: { type: 'string' },
        indexes: { type: 'string', default: '0-19' },
        to: { type: 'string' },
        rpc: { type: 'string' },
        token: { type: 'string', multiple: true },
        reserve: { type: 'string' },
        'fee-rate': { type: 'string' },
        send: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
      },
    }).values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function readChain(id: string): Chain {
  const environment =
    refusedChains({ environment: 'production', enabled: [id] }).length === 0 ? 'production' : 'sandbox';
  const [fault] = refusedChains({ environment, enabled: [id] });
  if (fault) throw new UsageError(fault);
  const chain = createRegistry({ environment, enabled: [id] }).chain(id)!;
  if (chain.family === 'evm') throw new UsageError(`leave --chain ${id} out: EVM chains are known by what is at --rpc`);
  return chain;
}

function readIndexes(text: string): Options['indexes'] {
  const [, from, to = from] = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(text) ?? [];
  const indexes = { first: Number(from), last: Number(to) };
  if (!(indexes.last >= indexes.first && indexes.last - indexes.first < INDEXES_MAX)) {
    throw new UsageError(`--indexes must be like 0-19, and at most ${INDEXES_MAX} of them`);
  }
  return indexes;
}

function readSweep(values: Values, chainId: string): SweepOptions | undefined {
  const family = familyOf(chainId).name;
  const only = (option: keyof Values, families: readonly string[]) => {
    if (values[option] !== undefined && !families.includes(family))
      throw new UsageError(`--${option} is nothing that ${family === 'evm' ? 'an EVM chain' : chainId} has`);
  };
  only('reserve', ['evm']);
  only('fee-rate', ['bitcoin']);
  only('token', ['evm', 'tron']);
  if ((values.to === undefined) !== (values.rpc === undefined)) throw new UsageError('--to and --rpc go together');
  if (values.send && values.to === undefined) throw new UsageError('--send needs --to and --rpc');
  const reserve = values.reserve ?? '0';
  if (!/^\d{1,30}$/.test(reserve)) throw new UsageError('--reserve must be a number of wei');
  if (values.to === undefined || values.rpc === undefined) return undefined;
  return {
    rpcUrl: values.rpc,
    to: readAddress('--to', values.to, chainId),
    tokens: (values.token ?? []).map((token) => readAddress('--token', token, chainId)),
    reserveWei: BigInt(reserve),
    satPerKvb: values['fee-rate'] === undefined ? undefined : readRate(values['fee-rate']),
    send: values.send,
  };
}

function readAddress(option: string, text: string, chainId: string): string {
  const read = familyOf(chainId).readAddress(text, chainId);
  if ('address' in read) return read.address;
  throw new UsageError(`${option} ${text} ${read.sentence}`);
}

/** Satoshis for a virtual byte, as wallets and explorers show them. */
function readRate(text: string): bigint {
  const satPerKvb = parseAmount(text, RATE_DECIMALS);
  if (typeof satPerKvb === 'bigint' && satPerKvb >= 1000n && satPerKvb <= 1_000_000n) return satPerKvb;
  throw new UsageError(
    `--fee-rate must be satoshis for a virtual byte, 1 to 1000 with ${RATE_DECIMALS} decimals; ${text} is not`,
  );
}
