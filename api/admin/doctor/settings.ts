import { apiConfig, workerConfig } from '../../../shared/config.ts';
import { ConfigError, type Env } from '../../../shared/read-env.ts';
import { unknownVariables } from '../../../shared/unknown-variables.ts';
import { readWebhookKeys, readWebhookPublicKey } from '../../../shared/webhook-keys.ts';
import { readTokenKeys } from '../../tokens/read-token-keys.ts';
import { type Finding, notChecked, ok, wrong } from './finding.ts';

/** Settings as api and workers would read them here, names that nothing reads, and files of keys. */
export function checkSettings(env: Env): Finding[] {
  const unknown = unknownVariables(env);
  return [
    ...unknown.map((sentence) => wrong('variables', sentence)),
    ...(unknown.length === 0 ? [ok('variables', 'all that are set are known')] : []),
    // What each of them needs, and nothing else does.
    env.PURSER_WEBHOOK_PUBLIC_KEY_FILE
      ? read('settings of the api', () => apiConfig(env))
      : notChecked('settings of the api', 'PURSER_WEBHOOK_PUBLIC_KEY_FILE'),
    env.PURSER_QUEUES || env.PURSER_POLICY_KEY_FILE
      ? read('settings of the workers', () => workerConfig(env))
      : notChecked('settings of the workers', 'PURSER_QUEUES'),
    checkTokenKeys(env),
    checkWebhookKeys(env),
  ];
}

function checkTokenKeys({ PURSER_TOKEN_KEYS_FILE: file }: Env): Finding {
  const check = 'keys of access tokens';
  return file ? read(check, () => readTokenKeys(file)) : notChecked(check, 'PURSER_TOKEN_KEYS_FILE');
}

/** What the api seals, the workers must be able to open. */
function checkWebhookKeys(env: Env): Finding {
  const { PURSER_WEBHOOK_KEYS_FILE: privateFile, PURSER_WEBHOOK_PUBLIC_KEY_FILE: publicFile } = env;
  const check = 'keys of webhook secrets';
  if (!privateFile || !publicFile)
    return notChecked(check, 'PURSER_WEBHOOK_KEYS_FILE', 'PURSER_WEBHOOK_PUBLIC_KEY_FILE');
  return read(check, () => {
    const { kid, x, y } = readWebhookPublicKey(publicFile);
    if (readWebhookKeys(privateFile).keys.some((key) => key.kid === kid && key.x === x && key.y === y)) return;
    throw new ConfigError([
      'PURSER_WEBHOOK_PUBLIC_KEY_FILE is not the public half of a key in PURSER_WEBHOOK_KEYS_FILE: secrets that the api seals could not be opened. Use the pair that worker/init-webhook-keys.ts made.',
    ]);
  });
}

function read(check: string, reading: () => unknown): Finding {
  try {
    reading();
    return ok(check, 'can be used');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return wrong(
      check,
      error.message
        .split('\n')
        .slice(1)
        .map((line) => line.trim())
        .join(' '),
    );
  }
}
