import { readFileSync } from 'node:fs';
import type { DevFacts, Home } from '../dev/home.ts';
import { deriveEvmAddress } from '../shared/chain/derive-address.ts';
import { buildTransfer } from '../shared/chain/evm/build-transfer.ts';
import { findAccountKey } from '../shared/db/account-keys.ts';
import { createPool } from '../shared/db/pool.ts';
import type { PaymentIntent } from '../shared/domain/receipt.ts';
import { newId } from '../shared/ids.ts';
import { importReceiptKey, signReceipt } from '../shared/receipt.ts';
import { createSignerClient, type SignerEndpoint } from '../signer/client.ts';
import type { SignRequest } from '../signer/coordinate-sign.ts';
import { loadCoordinatorIdentity } from '../signer/identity.ts';
import { recipient } from './payments.ts';
import { timed } from './samples.ts';

/** A child of the account's key that no agent gets to. */
const path = 'm/44/60/0/0/1000000';
const receiptLifetimeSeconds = 600;
const gas = 21_000n;
const maxFeePerGasWei = 2_000_000_000n;

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
  const key = await accountKey(facts);
  const address = deriveEvmAddress({ publicKey: key.public_key, chainCode: key.chain_code, path });
  let nonce = 0;

  async function request(): Promise<SignRequest> {
    const intent: PaymentIntent = {
      chain: facts.chain,
      asset: 'native',
      to: recipient,
      amount_minor: '1',
      max_fee_minor: (gas * maxFeePerGasWei).toString(),
    };
    const prepared = {
      outcome: 'ready' as const,
      minedCount: 0,
      gas: gas.toString(),
      maxFeePerGasWei: maxFeePerGasWei.toString(),
      maxPriorityFeePerGasWei: '1',
      maxFeeMinor: intent.max_fee_minor,
    };
    const transaction = buildTransfer({ intent, nonce, prepared });
    nonce += 1;
    const iat = Math.floor(Date.now() / 1000);
    const receipt = await signReceipt(policyKey, {
      account_id: facts.account_id,
      agent_id: newId('agent'),
      wallet: { key_id: key.id, path, address },
      transaction_id: newId('tx'),
      decision_id: newId('dec'),
      intent,
      iat,
      exp: iat + receiptLifetimeSeconds,
    });
    return { keyId: key.id, path, address, payload: { kind: 'evm-transaction', transaction }, receipt };
  }

  return {
    async signMs() {
      const asked = await request();
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
