import { createHash } from 'node:crypto';
import { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { Transporter } from 'nodemailer';
import type { Pool } from '../shared/db/pool.ts';
import { noteAlertsTold, type SignerAlertRow, untoldAlerts } from '../shared/db/signer-alerts.ts';
import type { Logger } from '../shared/log.ts';
import type { MailAddress } from '../shared/mail-settings.ts';
import { readMailFailure } from './mail-failure.ts';
import { renderAlertMail } from './render-alert-mail.ts';

/** Alerts in one mail; the rest follow in the next one. */
const maxAlerts = 50;
/** For one mail, everything included: below the activity's own timeout. */
const deadlineMs = 90_000;

export interface SendAlertMailDependencies {
  readonly pool: Pool;
  readonly logger: Logger;
  readonly transport: Transporter;
  readonly from: MailAddress;
  /** Who is told; nobody where it is empty. */
  readonly alertTo: readonly MailAddress[];
}

/**
 * Tells everybody who is to know what is wrong with the signers, and what is no longer, by one mail. An alert counts as
 * told once the mail server has taken the mail for one of them; one that died in between is sent again under the same
 * message id.
 * @returns how many alerts it told of
 * @throws ApplicationFailure `MailNotSent`: to be repeated, for it concerns all of what is to be told
 */
export function createSendAlertMail({ pool, logger, transport, from, alertTo }: SendAlertMailDependencies) {
  return async function sendAlertMail(): Promise<number> {
    const told = await untoldAlerts(pool, { limit: maxAlerts });
    if (told.length === 0) return 0;
    if (alertTo.length > 0) await send(told);
    await noteAlertsTold(pool, { told });
    return told.length;
  };

  async function send(told: readonly SignerAlertRow[]): Promise<void> {
    try {
      const { rejected = [] } = await transport.sendMail({
        ...renderAlertMail(told),
        from,
        to: [...alertTo],
        messageId: messageId(told, from),
        headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
        disableFileAccess: true,
        disableUrlAccess: true,
        signal: AbortSignal.any([Context.current().cancellationSignal, AbortSignal.timeout(deadlineMs)]),
      });
      if (rejected.length > 0)
        logger.error({ refused: rejected.length }, 'a mail server refused addresses of PURSER_ALERT_TO');
    } catch (error) {
      const { message } = readMailFailure(error, { secret: '' });
      logger.error(
        { error: message, alerts: told.map(({ id }) => id) },
        'operators could not be told of alerts by mail',
      );
      // Without the error as its cause: that one may hold what the server was sent.
      throw ApplicationFailure.retryable(message, 'MailNotSent');
    }
  }
}

/** The same for the same news. */
function messageId(told: readonly SignerAlertRow[], from: MailAddress): string {
  const news = told.map(({ id, closed_at }) => `${id} ${closed_at === null ? 'open' : 'over'}`).join('\n');
  const digest = createHash('sha256').update(news).digest('hex').slice(0, 32);
  return `<alert.${digest}@${from.address.split('@')[1]}>`;
}
