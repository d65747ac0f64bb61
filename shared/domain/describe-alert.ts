import type { AlertSubject } from './signer-alerts.ts';

/** An alert for people: what it is, and what can be done about it. In ASCII; holds nothing that a signer has said. */
export function describeAlert({ kind, party, keyId }: AlertSubject): { title: string; advice: string } {
  const key = keyId ?? 'KEY';
  switch (kind) {
    case 'signer_banned':
      return {
        title: `Signer ${party} is banned from key ${key}`,
        advice:
          'It broke the protocol in a message that it signed, which may be an attack. The others go on signing without ' +
          'it, and nothing is tried again by itself. Find out what happened to it; once it can be trusted: ' +
          `npm run signers -- unban --key ${key}`,
      };
    case 'signer_unreachable':
      return {
        title: `Signer ${party} does not answer`,
        advice:
          'Payments are signed by the two others; new keys and refreshes wait. Look at its log, its machine and the ' +
          'way there. If its disk is lost: npm run signers -- restore, then repair.',
      };
    case 'signers_unwatched':
      return {
        title: 'Nobody asks the signers',
        advice: 'No worker of queue wallet-signing does its work: nothing is signed, and no fault of a signer is seen.',
      };
    case 'key_behind':
      return {
        title: `Signer ${party} has no current share of key ${key}`,
        advice:
          'The two others sign without it. Where it has an older share: ' +
          `npm run signers -- refresh --key ${key}; where it has none: npm run signers -- repair --party ${party}`,
      };
    case 'key_without_records':
      return {
        title: `Signer ${party} lacks the records of key ${key}`,
        advice: `It signs nothing with the key until they are merged: npm run signers -- repair --party ${party}`,
      };
    case 'refresh_unfinished':
      return {
        title: `A refresh of key ${key} has not been finished`,
        advice: `Old shares are still there. To finish it: npm run signers -- refresh --key ${key}`,
      };
    case 'refresh_overdue':
      return {
        title: `The shares of key ${key} are old`,
        advice:
          'Look at the last runs of schedule refresh-keys in Temporal; they say why. By hand: ' +
          `npm run signers -- refresh --key ${key}`,
      };
    case 'backup_missing':
      return {
        title: `Signer ${party} has no current backup`,
        advice:
          'If its disk were lost now, its shares would have to be repaired by the two others. Look at its settings ' +
          'PURSER_SIGNER_BACKUP_... and its log; then: npm run signers -- backup',
      };
    case 'limits_differ':
      return {
        title: `The signers do not have the same limits of key ${key}`,
        advice:
          'Payments of its wallets may be refused until they do. Whoever set the limits sets them again: ' +
          'npm run signers -- limits set',
      };
  }
}
