import { readFileSync } from 'node:fs';
import type { DevFacts, Home } from '../dev/home.ts';
import { findAccountKey } from '../shared/db/account-keys.ts';
import { createPool } from '../shared/db/pool.ts';
import { newId } from '../shared/ids.ts';
import { importReceiptKey } from '../shared/receipt.ts';
import { createSignerClient, type SignerEndpoint } from '../signer/client.ts';
import { loadCoordinatorIdentity } from '../signer/identity.ts';
import { createPaymentRequests } from './payment-requests.ts';
import { timed } from './samples.ts';

/** A child of the account's key that no agent gets to. */
const path = 'm/44/60/0/0/1000000';

/** The three signer processes of the stack, asked directly: no API, no workflow, no worker. */
export interface SignatureBench {
  /** One signature by two of the three; making the receipt is not counted. Milliseconds. */
  signMs(): Promise<number>;
  /** One key by all three. Milliseconds. */
  generateKeyMs(): Promise<number>;
  close(): void;
}

export async function createSignatureBench({
  facts,
  home,
  endpoints,
}: {
  facts: DevFacts;
  home: Home;
  endpoints: readonly SignerEndpoint[];
}): Promise<SignatureBench> {
  const identity = await loadCoordinatorIdentity(home.file('keys', 'coordinator.json'));
  const policyKey = await importReceiptKey(readFileSync(home.file('keys', 'policy.json'), 'utf8'));
  const client = createSignerClient({ signers: endpoints, identity });
  const { id: keyId, public_key: publicKey, chain_code: chainCode } = await accountKey(facts);
  const { account_id: accountId, chain } = facts;
  const nextRequest = createPaymentRequests({ keyId, publicKey, chainCode, path, accountId, chain }, policyKey);
  return {
    async signMs() {
      const asked = await nextRequest();
      return timed(() => client.sign(asked));
    },
    generateKeyMs: () => timed(() => client.generateKey({ keyId: newId('ckey') })),
    close: () => client.close(),
  };
}

async function accountKey(facts: DevFacts) {
  const pool = createPool({ url: facts.database_url, max: 1, application: 'purser-bench' });
  try {
    const key = await findAccountKey(pool, { accountId: facts.account_id });
    if (!key) throw new Error(`Account ${facts.account_id} has no key, although the stack has started.`);
    return key;
  } finally {
    await pool.end();
  }
}
