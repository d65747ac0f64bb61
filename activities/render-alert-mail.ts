import type { SignerAlertRow } from '../shared/db/signer-alerts.ts';
import { describeAlert } from '../shared/domain/describe-alert.ts';
import { timeInWords } from '../shared/domain/time-in-words.ts';
import { inertText } from './inert-text.ts';
import { wrap } from './mail-text.ts';

/**
 * The mail that tells operators what is wrong with the signers, and what is no longer. Plain text without links: nobody
 * has to sign in anywhere, and what a signer has said cannot become one.
 * @param alerts at least one, whose beginning or end is news
 */
export function renderAlertMail(alerts: readonly SignerAlertRow[]): { subject: string; text: string } {
  const subjects = alerts.map((alert) => ({ alert, ...describeAlert({ ...alert, keyId: alert.key_id }) }));
  const open = subjects.filter(({ alert }) => alert.closed_at === null);
  const over = subjects.filter(({ alert }) => alert.closed_at !== null);
  const first = open[0] ?? over[0]!;
  const more = alerts.length === 1 ? '' : ` (and ${alerts.length - 1} more)`;
  const parts = [
    ...open.flatMap(({ alert, title, advice }) => [
      wrap(`${title}, since ${timeInWords(alert.found_at)}.`),
      wrap(`Found: ${inertText(alert.detail)}`),
      wrap(advice),
    ]),
    ...over.map(({ alert, title }) =>
      wrap(`Over: ${title}, from ${timeInWords(alert.found_at)} to ${timeInWords(alert.closed_at!)}.`),
    ),
    wrap('The last run of schedule watch-signers in Temporal shows everything that is wrong now.'),
  ];
  return {
    subject: `Purser: ${open.length > 0 ? '' : 'over: '}${first.title}${more}`,
    text: `${parts.join('\n\n')}\n`,
  };
}
