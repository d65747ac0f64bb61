import { existsSync, readFileSync } from 'node:fs';
import { z } from 'zod';
import { isDevelopmentSecret } from '../shared/domain/development-mark.ts';
import type { BackupTarget } from './backup/backup.ts';
import { createEncrypter } from './backup/frame.ts';
import type { EngineChoice } from './engine/load.ts';
import { environmentKekSource, fileKekSource, type KekSource, parseKeks, readKekFile } from './kek-source.ts';
import { othersThan, PARTIES, type Party } from './parties.ts';

export interface SignerConfig {
  party: Party;
  host: string;
  /** 0 takes a free port. */
  port: number;
  dataDir: string;
  /** Key-encryption keys: the one under which shares are sealed, and those before it. */
  keks: KekSource;
  /** Undefined: no backup is kept. */
  backup: BackupTarget | undefined;
  identityFile: string;
  /** Public identities of the other two signers. */
  peers: ReadonlyMap<Party, string>;
  coordinatorPublicKey: string;
  policyPublicKey: string;
  /** Who may lift bans and have shares repaired. */
  operatorPublicKey: string | undefined;
  engine: EngineChoice;
  /** Where metrics are served; undefined: nowhere. */
  metrics: { host: string; port: number } | undefined;
  logLevel: string;
}

const key = '[A-Za-z0-9_-]{43}';
const publicKey = z
  .string('is missing; signer/init.ts prints it')
  .regex(new RegExp(`^${key}$`), 'must be an Ed25519 public key: 43 characters of base64url');
const identity = z.string().regex(new RegExp(`^${key}\\.${key}$`), 'must be <ed25519>.<x25519> in base64url');

const schema = z.object({
  PURSER_ENV: z.enum(['sandbox', 'production'], 'must be sandbox or production').default('production'),
  PURSER_SIGNER_PARTY: z.enum(['1', '2', '3'], 'must be 1, 2 or 3').transform((s) => Number(s) as Party),
  PURSER_SIGNER_HOST: z.string().min(1).default('127.0.0.1'),
  PURSER_SIGNER_PORT: z
    .string('is missing; it is the port to listen on')
    .regex(/^\d{1,5}$/, 'must be a port number, 0 to 65535')
    .transform(Number)
    .refine((n) => n <= 65535, 'must be a port number, 0 to 65535'),
  PURSER_SIGNER_DATA_DIR: z.string('is missing; it is where the signer keeps its shares').min(1, 'must be a directory'),
  PURSER_SIGNER_KEK_FILE: z.string().min(1).optional(),
  PURSER_SIGNER_KEK: z.string().min(1).optional(),
  PURSER_SIGNER_KEK_PREVIOUS: z.string().min(1).optional(),
  PURSER_SIGNER_BACKUP_DIR: z.string().min(1, 'must be a directory').optional(),
  PURSER_SIGNER_BACKUP_RECIPIENT: z.string().min(1).optional(),
  PURSER_SIGNER_IDENTITY_FILE: z.string('is missing; make it with signer/init.ts').min(1, 'must be a file'),
  PURSER_SIGNER_PEERS: z
    .string('is missing; it is a JSON object of party and public identity')
    .transform(parseObject)
    .pipe(
      z.partialRecord(
        z.enum(['1', '2', '3'], 'has a party other than 1, 2, 3'),
        identity,
        'must be a JSON object of party and public identity',
      ),
    ),
  PURSER_COORDINATOR_PUBLIC_KEY: publicKey,
  PURSER_POLICY_PUBLIC_KEY: publicKey,
  PURSER_OPERATOR_PUBLIC_KEY: publicKey.optional(),
  PURSER_ENGINE: z.enum(['auto', 'wasm', 'native'], 'must be auto, wasm or native').default('auto'),
  PURSER_METRICS_HOST: z.string().min(1).default('127.0.0.1'),
  PURSER_METRICS_PORT: z
    .string()
    .regex(/^\d{1,5}$/, 'must be a port number, 0 to 65535')
    .transform(Number)
    .refine((n) => n <= 65535, 'must be a port number, 0 to 65535')
    .optional(),
  PURSER_LOG_LEVEL: z
    .enum(
      ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
      'must be one of trace, debug, info, warn, error, fatal, silent',
    )
    .default('info'),
});

/**
 * Reads a signer's settings from the environment.
 * @throws Error of one sentence that names the variable and what it should be, and never repeats its value
 */
export function readSignerConfig(env: Record<string, string | undefined>): SignerConfig {
  const parsed = schema.safeParse(env);
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!;
    throw new Error(`${issue.path.join(' → ')} ${issue.message}`);
  }
  const e = parsed.data;
  const party = e.PURSER_SIGNER_PARTY;
  const isProduction = e.PURSER_ENV === 'production';
  const kek = kekText(e);
  if (isProduction) refuseDevelopmentSecrets({ kek, identityFile: e.PURSER_SIGNER_IDENTITY_FILE });
  parseKeks(kek);
  const peers = new Map<Party, string>();
  for (const other of othersThan(party)) {
    const peer = e.PURSER_SIGNER_PEERS[`${other}`];
    if (!peer)
      throw new Error(`PURSER_SIGNER_PEERS must name the other signers; ${other} of ${PARTIES.join(', ')} is missing`);
    peers.set(other, peer);
  }
  return {
    party,
    host: e.PURSER_SIGNER_HOST,
    port: e.PURSER_SIGNER_PORT,
    dataDir: e.PURSER_SIGNER_DATA_DIR,
    keks: kekSource(e, isProduction),
    backup: backupTarget({ dir: e.PURSER_SIGNER_BACKUP_DIR, recipients: e.PURSER_SIGNER_BACKUP_RECIPIENT }),
    identityFile: e.PURSER_SIGNER_IDENTITY_FILE,
    peers,
    coordinatorPublicKey: e.PURSER_COORDINATOR_PUBLIC_KEY,
    policyPublicKey: e.PURSER_POLICY_PUBLIC_KEY,
    operatorPublicKey: e.PURSER_OPERATOR_PUBLIC_KEY,
    engine: e.PURSER_ENGINE,
    metrics:
      e.PURSER_METRICS_PORT === undefined ? undefined : { host: e.PURSER_METRICS_HOST, port: e.PURSER_METRICS_PORT },
    logLevel: e.PURSER_LOG_LEVEL,
  };
}

function parseObject(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A secret as it was configured: the variable's name, and what it or its file holds. */
interface SecretText {
  name: string;
  text: string;
}

interface KekSettings {
  PURSER_SIGNER_KEK_FILE?: string | undefined;
  PURSER_SIGNER_KEK?: string | undefined;
  PURSER_SIGNER_KEK_PREVIOUS?: string | undefined;
}

function kekText(e: KekSettings): SecretText {
  if ((e.PURSER_SIGNER_KEK_FILE === undefined) === (e.PURSER_SIGNER_KEK === undefined)) {
    throw new Error('exactly one of PURSER_SIGNER_KEK_FILE and PURSER_SIGNER_KEK must be set');
  }
  if (e.PURSER_SIGNER_KEK !== undefined) return { name: 'PURSER_SIGNER_KEK', text: e.PURSER_SIGNER_KEK };
  if (e.PURSER_SIGNER_KEK_PREVIOUS !== undefined) {
    throw new Error(
      'PURSER_SIGNER_KEK_PREVIOUS goes with PURSER_SIGNER_KEK; a file holds earlier keys below the first',
    );
  }
  return { name: 'PURSER_SIGNER_KEK_FILE', text: readKekFile(e.PURSER_SIGNER_KEK_FILE!) };
}

function kekSource(e: KekSettings, isProduction: boolean): KekSource {
  if (e.PURSER_SIGNER_KEK_FILE !== undefined) return fileKekSource({ file: e.PURSER_SIGNER_KEK_FILE, isProduction });
  return environmentKekSource({ current: e.PURSER_SIGNER_KEK!, previous: e.PURSER_SIGNER_KEK_PREVIOUS });
}

/** One of the two alone would be a backup that somebody believes in. */
function backupTarget(p: { dir: string | undefined; recipients: string | undefined }): BackupTarget | undefined {
  const { dir } = p;
  if (dir === undefined && p.recipients === undefined) return undefined;
  if (dir === undefined || p.recipients === undefined) {
    throw new Error('PURSER_SIGNER_BACKUP_DIR and PURSER_SIGNER_BACKUP_RECIPIENT must be set together, or neither');
  }
  const recipients = p.recipients.split(',').map((recipient) => recipient.trim());
  try {
    createEncrypter(recipients);
  } catch {
    // Whoever puts the private half here must not find it in a log.
    throw new Error(
      'PURSER_SIGNER_BACKUP_RECIPIENT must be age recipients (age1…), separated by commas, as npm run signers -- backup-key prints them',
    );
  }
  return { dir, recipients };
}

/** Names each: whoever has a folder of npm start, or a backup of it, has these. */
function refuseDevelopmentSecrets(p: { kek: SecretText; identityFile: string }): void {
  // A file that is not there is told of where it is used.
  const identity = existsSync(p.identityFile) ? readSecret('PURSER_SIGNER_IDENTITY_FILE', p.identityFile) : undefined;
  const marked = [p.kek, ...(identity ? [identity] : [])]
    .filter(({ text }) => isDevelopmentSecret(text))
    .map(({ name }) => name);
  if (marked.length === 0) return;
  throw new Error(
    `${marked.join(' and ')}: made by npm start for trying out, and refused in production; signer/init.ts makes those of an installation`,
  );
}

function readSecret(name: string, file: string): SecretText {
  try {
    return { name, text: readFileSync(file, 'utf8') };
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : cause;
    throw new Error(`${name} ${file} cannot be read (${code})`, { cause });
  }
}
