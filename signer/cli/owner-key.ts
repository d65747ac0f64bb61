import { signLimits } from '../limits-document.ts';
import { signOwnerKeyChange } from '../owner-key.ts';
import { makeOwnerKey } from '../owner-key-file.ts';
import { type Command, type CommandContext, UsageError } from './command.ts';
import { findOwnedKey, loadOwner, reportSigners } from './owner.ts';

type Values = Record<string, string | undefined>;

export const ownerKeyCommands: Readonly<Record<string, Command>> = {
  'owner-key new': {
    summary:
      'Makes the key of an account’s owner, who sets limits inside the signers. Keep the file where no process runs.',
    usage: '--file F',
    options: { file: { type: 'string' } },
    async run({ values }) {
      const { file } = values as Values;
      if (!file) throw new UsageError('--file is missing: where to write the owner’s key');
      return { file, owner_key: await makeOwnerKey({ file }) };
    },
  },
  'owner-key register': {
    summary: 'Names the owner of a key that has none yet. Asked as the operator, once.',
    usage: '--key KEY --owner-key PUBLIC',
    options: { key: { type: 'string' }, 'owner-key': { type: 'string' } },
    async run({ values, connect, tell }) {
      const { key: keyId, 'owner-key': ownerKey } = values as Values;
      if (!keyId || !ownerKey) throw new UsageError('--key and --owner-key are both needed');
      const client = await connect();
      const answers = await client.askEach({ path: '/v1/owner-key/register', body: { keyId, ownerKey } });
      return { key_id: keyId, owner_key: ownerKey, signers: reportSigners(answers, tell) };
    },
  },
  'owner-key replace': {
    summary:
      'Has another owner’s key speak from now on, by the word of the one before, and signs all limits anew with it.',
    usage: '--owner-key-file F --new-owner-key-file F [--key KEY]',
    options: {
      key: { type: 'string' },
      'owner-key-file': { type: 'string' },
      'new-owner-key-file': { type: 'string' },
    },
    run: replace,
  },
};

/** Limits are signed anew because a signer that was away verifies them by the key that it knows then. */
async function replace({ values, connect, tell }: CommandContext): Promise<object> {
  const { key, 'owner-key-file': file, 'new-owner-key-file': newFile } = values as Values;
  const [owner, next] = [await loadOwner(file), await loadOwner(newFile, '--new-owner-key-file')];
  const client = await connect();
  const { keyId, limits, ownerKeyVersion } = await findOwnedKey(client, { owner, key });
  const change = { key_id: keyId, version: ownerKeyVersion + 1, owner_key: next.publicKey };
  const body = { document: await signOwnerKeyChange(owner.signingKey, change) };
  const signers = reportSigners(await client.askEach({ path: '/v1/owner-key/replace', body }), tell);
  for (const claims of limits) {
    const document = await signLimits(next.signingKey, { ...claims, version: claims.version + 1 });
    reportSigners(await client.askEach({ path: '/v1/limits/set', body: { document } }), tell);
  }
  return { key_id: keyId, owner_key: next.publicKey, limits_signed_anew: limits.length, signers };
}
