// A signer's store by itself, for tests that kill it while it writes its backup or seals its shares anew, again and again:
//   node test/support/safekeeping-process.ts backup|reseal DATA_DIR KEKS [TARGET_DIR RECIPIENT]
// KEKS are in base64, separated by commas; each becomes the current one again and again. Says "begun" once it is in the middle of it.
import { setImmediate } from 'node:timers/promises';
import { generateKeyPair } from 'jose';
import { createLogger } from '../../shared/log.ts';
import { createSignerBackup } from '../../signer/backup/backup.ts';
import { createKeyEncryption } from '../../signer/kek.ts';
import { parseKeks } from '../../signer/kek-source.ts';
import type { ResealPosition } from '../../signer/store/reseal.ts';
import { openSignerStore } from '../../signer/store.ts';

const [mode, dataDir, kekText, dir, recipient] = process.argv.slice(2) as [string, string, string, string, string];
const keks = parseKeks({ name: 'KEKS', text: kekText.replaceAll(',', '\n') });
const now = () => new Date();
const keyEncryption = createKeyEncryption(keks);
const store = openSignerStore({ dataDir, party: 2, engineVersion: 'v1', keyEncryption, now });

if (mode === 'backup') {
  const { privateKey: signingKey } = await generateKeyPair('EdDSA');
  const log = createLogger({ process: 'test', level: 'warn' });
  const target = { dir, recipients: [recipient] };
  const backup = createSignerBackup({ target, party: 2, store, signingKey, log, now });
  await backup.rewrite();
  process.stdout.write('begun\n');
  for (;;) await backup.rewrite();
}

process.stdout.write('begun\n');
for (;;) {
  let position: ResealPosition | undefined;
  do {
    ({ position } = store.resealSome({ kekId: keks[0]!.id, after: position, max: 1 }));
    await setImmediate();
  } while (position);
  store.truncateLog();
  keks.reverse();
  keyEncryption.replace(keks);
}
