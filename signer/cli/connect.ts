import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { list } from '../../shared/config-values.ts';
import { extraToken } from '../../shared/extra-token.ts';
import { createSignerClient, type SignerClient } from '../client.ts';
import { loadCoordinatorIdentity } from '../identity.ts';
import { PARTIES } from '../parties.ts';
import { UsageError } from './command.ts';

const endpoints = z
  .array(z.strictObject({ party: z.literal(PARTIES), url: z.url(), publicKey: z.string() }))
  .length(PARTIES.length);
/** What `npm start` writes into its folder. */
const home = z.object({ signers: endpoints, operator_key_file: z.string(), extra_tokens: z.string().default('') });
const extraTokens = list.pipe(z.array(extraToken));

/**
 * The three signers, asked as the operator: those of `PURSER_SIGNERS` with the key in `PURSER_OPERATOR_KEY_FILE`, else
 * those of `npm start` in `PURSER_HOME` (default `.purser`).
 * @throws UsageError which names what is missing
 */
export async function connectSigners(env: NodeJS.ProcessEnv): Promise<SignerClient> {
  const { signers, operator_key_file: file } = env.PURSER_SIGNERS ? fromEnvironment(env) : fromHome(env);
  return createSignerClient({ signers, identity: await loadCoordinatorIdentity(file), role: 'operator' });
}

/** Addresses and public identities of the three signers, without asking them. @throws UsageError */
export function readEndpoints(env: NodeJS.ProcessEnv): z.infer<typeof endpoints> {
  return env.PURSER_SIGNERS ? parse(endpoints, env.PURSER_SIGNERS, 'PURSER_SIGNERS') : fromHome(env).signers;
}

/** Tokens beyond the built-in ones: of `PURSER_EXTRA_TOKENS`, else those of `npm start`. @throws UsageError */
export function readExtraTokens(env: NodeJS.ProcessEnv): z.infer<typeof extraTokens> {
  const isThere = env.PURSER_EXTRA_TOKENS === undefined && !env.PURSER_SIGNERS && existsSync(homeFile(env));
  const parsed = extraTokens.safeParse(isThere ? fromHome(env).extra_tokens : (env.PURSER_EXTRA_TOKENS ?? ''));
  if (parsed.success) return parsed.data;
  throw new UsageError(`PURSER_EXTRA_TOKENS ${parsed.error.issues[0]!.message}`);
}

const homeFile = (env: NodeJS.ProcessEnv) => join(env.PURSER_HOME ?? '.purser', 'signers.json');

function fromEnvironment(env: NodeJS.ProcessEnv): Omit<z.infer<typeof home>, 'extra_tokens'> {
  if (!env.PURSER_OPERATOR_KEY_FILE) {
    throw new UsageError('PURSER_OPERATOR_KEY_FILE is missing; signer/init.ts --kind operator makes one');
  }
  return {
    signers: parse(endpoints, env.PURSER_SIGNERS!, 'PURSER_SIGNERS'),
    operator_key_file: env.PURSER_OPERATOR_KEY_FILE,
  };
}

function fromHome(env: NodeJS.ProcessEnv): z.infer<typeof home> {
  const file = homeFile(env);
  if (!existsSync(file)) {
    throw new UsageError(
      `PURSER_SIGNERS is missing: a JSON array of {party, url, publicKey}. (There is no ${file} of npm start either.)`,
    );
  }
  return parse(home, readFileSync(file, 'utf8'), file);
}

function parse<T>(schema: z.ZodType<T>, text: string, name: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new UsageError(`${name} is not JSON`);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  throw new UsageError(`${name} is not valid at ${issue.path.join('.') || 'its root'}: ${issue.message}`);
}
