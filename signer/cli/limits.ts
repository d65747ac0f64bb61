import { walletAddressPattern, walletName } from '../address.ts';
import { ALL_WALLETS, type AssetLimit, type LimitsClaims, readLimits, signLimits } from '../limits-document.ts';
import type { listLimits } from '../set-limits.ts';
import { type Command, type CommandContext, UsageError } from './command.ts';
import { readExtraTokens } from './connect.ts';
import { decimalsOf, readLimitAmount, readLimitAsset, writeLimitAmount } from './limit-asset.ts';
import { findOwnedKey, loadOwner, reportSigners } from './owner.ts';

const shared = { key: { type: 'string' }, wallet: { type: 'string' }, 'owner-key-file': { type: 'string' } } as const;
type Values = Record<string, string | undefined>;

export const limitsCommands: Readonly<Record<string, Command>> = {
  'limits set': {
    summary:
      'Lets a wallet pay in one asset no more than so much at once and in any 24 hours, in whole units (25.50). What no limit lists is refused from then on. Signed by the owner of the account.',
    usage:
      '--owner-key-file F --wallet ADDRESS|all --asset CHAIN/TOKEN [--payment N|any] [--day N|any] [--decimals N] [--key KEY]',
    options: {
      ...shared,
      ...{ asset: { type: 'string' }, payment: { type: 'string' }, day: { type: 'string' } },
      decimals: { type: 'string' },
    },
    async run(context) {
      const values = context.values as Values;
      const { asset: named, decimals } = values;
      const asset = readLimitAsset({ asset: named, decimals, extraTokens: readExtraTokens(context.env) });
      if (values.payment === undefined && values.day === undefined) {
        throw new UsageError('there is nothing to set: give --payment, --day or both, in whole units or as any');
      }
      const limit: AssetLimit = {
        asset: asset.name,
        payment_minor: readLimitAmount('--payment', { text: values.payment, decimals: asset.decimals }),
        day_minor: readLimitAmount('--day', { text: values.day, decimals: asset.decimals }),
      };
      return put(context, (before) => [...(before ?? []).filter((each) => each.asset !== asset.name), limit]);
    },
  },
  'limits off': {
    summary: 'Takes the limits of a wallet away, or those of all wallets that have none of their own.',
    usage: '--owner-key-file F --wallet ADDRESS|all [--key KEY]',
    options: shared,
    run: (context) => put(context, () => null),
  },
  'limits show': {
    summary: 'The limits of one key, or of all, and whose word counts. Ends with 1 unless the three signers agree.',
    usage: '[--key KEY]',
    options: { key: { type: 'string' } },
    run: show,
  },
};

/** Signs the next version of a wallet's limits, and brings it to all three. */
async function put(
  { values, env, connect, tell }: CommandContext,
  change: (before: AssetLimit[] | null) => AssetLimit[] | null,
): Promise<object> {
  const { key, wallet: given, 'owner-key-file': file } = values as Values;
  const wallet = readWallet(given);
  const owner = await loadOwner(file);
  const client = await connect();
  const owned = await findOwnedKey(client, { owner, key });
  const before = owned.limits.find((each) => each.wallet === wallet);
  const claims: LimitsClaims = {
    key_id: owned.keyId,
    wallet,
    version: (before?.version ?? 0) + 1,
    limits: change(before?.limits ?? null),
  };
  const body = { document: await signLimits(owner.signingKey, claims) };
  const signers = reportSigners(await client.askEach({ path: '/v1/limits/set', body }), tell);
  if (signers.some(({ error }) => error)) {
    tell('who missed it learns it from the next signature that it takes part in, or from the same command, run again');
  }
  return { ...render(claims, env), signers };
}

function readWallet(text: string | undefined): string {
  if (text === 'all') return ALL_WALLETS;
  if (text !== undefined && walletAddressPattern.test(text)) return walletName(text);
  throw new UsageError('--wallet must be the address of a wallet, or all: those that have no limits of their own');
}

/** In whole units where the decimals are known. */
function render({ key_id, wallet, version, limits }: LimitsClaims, env: NodeJS.ProcessEnv): object {
  const extraTokens = readExtraTokens(env);
  return {
    key_id,
    wallet: wallet === ALL_WALLETS ? 'all' : wallet,
    version,
    limits:
      limits?.map(({ asset, payment_minor, day_minor }) => {
        const decimals = decimalsOf(asset, extraTokens);
        return {
          asset,
          payment: writeLimitAmount(payment_minor, decimals),
          day: writeLimitAmount(day_minor, decimals),
        };
      }) ?? 'off',
  };
}

async function show({ values, env, connect, tell }: CommandContext): Promise<object> {
  const client = await connect();
  const named = (values as Values).key;
  const keyIds = named ? [named] : await listKeys(client);
  const keys = [];
  for (const keyId of keyIds) {
    const answers = await client.askEach<Awaited<ReturnType<typeof listLimits>>>({
      path: '/v1/limits/list',
      body: { keyId },
    });
    reportSigners(answers, tell);
    const told = answers.flatMap((answer) => ('error' in answer ? [] : [answer]));
    const of = (answer: (typeof told)[number]) =>
      JSON.stringify([answer.ownerKey, answer.limits.map(({ document }) => document)]);
    const agree = new Set(told.map(of)).size <= 1;
    if (!agree) {
      process.exitCode = 1;
      tell(`the signers have not the same limits for key ${keyId}: set them again`);
    }
    const newest = told.toSorted((a, b) => versionsOf(b) - versionsOf(a))[0];
    const limits = newest?.limits.map(({ document }) => render(readLimits(document), env)) ?? [];
    keys.push({ key_id: keyId, owner_key: newest?.ownerKey ?? null, agree, limits });
  }
  return { keys };
}

const versionsOf = ({ limits }: { limits: { version: number }[] }) =>
  limits.reduce((sum, { version }) => sum + version, 0);

async function listKeys(client: Awaited<ReturnType<CommandContext['connect']>>): Promise<string[]> {
  const signers = await client.status();
  const keys = signers.flatMap((signer) => ('keys' in signer ? signer.keys : []));
  return [...new Set(keys.map(({ keyId }) => keyId))].toSorted();
}
