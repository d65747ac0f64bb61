import type { Pool } from '../shared/db/pool.ts';
import { listSealedOtherwise, replaceSealed } from '../shared/db/sealed-secrets.ts';
import type { WebhookRow } from '../shared/db/webhooks.ts';
import type { Logger } from '../shared/log.ts';
import type { SealSecret, SecretOpener } from '../shared/webhook-secrets.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Webhooks that are read at once. */
const batchSize = 100;

export interface ResealDependencies {
  readonly pool: Pool;
  readonly opener: SecretOpener;
  /** Seals to the opener's current key. */
  readonly seal: SealSecret;
  readonly logger: Logger;
}

/** Secrets that were sealed anew, and those that no key here opens. */
export interface ResealResult {
  readonly resealed: number;
  readonly unopened: number;
}

/**
 * Seals each webhook's secrets anew that an older key sealed, so that this key can be put away once none is left. Safe to
 * repeat, and beside whoever changes a secret meanwhile.
 */
export function createResealSecrets({ pool, opener, seal, logger }: ResealDependencies) {
  const keyId = opener.currentKeyId;
  return function resealSecrets(): Promise<ResealResult> {
    return withHeartbeat(async () => {
      let [resealed, unopened, after] = [0, 0, ''];
      for (;;) {
        const rows = await listSealedOtherwise(pool, { keyId, after, limit: batchSize });
        for (const row of rows) {
          try {
            resealed += await resealOne(row);
          } catch (error) {
            unopened += 1;
            logger.error({ webhook_id: row.id, error: String(error) }, 'a secret cannot be sealed anew');
          }
        }
        if (rows.length < batchSize) return { resealed, unopened };
        after = rows.at(-1)!.id;
      }
    });
  };

  /** @returns how many of its two secrets were sealed anew */
  async function resealOne(webhook: WebhookRow): Promise<number> {
    const { id, secret, secret_key_id, previous_secret, previous_key_id } = webhook;
    let count = 0;
    for (const [which, seen, sealedBy] of [
      ['secret', secret, secret_key_id],
      ['previous', previous_secret, previous_key_id],
    ] as const) {
      if (seen === null || sealedBy === keyId) continue;
      const text = await opener.open({ sealed: seen, webhookId: id });
      const sealed = await seal({ secret: text, webhookId: id });
      if (await replaceSealed(pool, { id, which, seen, sealed })) count += 1;
    }
    return count;
  }
}
