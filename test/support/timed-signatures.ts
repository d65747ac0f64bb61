import type { CryptoKey } from 'jose';
import type { SignerClient } from '../../signer/client.ts';
import type { SignRequest } from '../../signer/coordinate-sign.ts';
import { nativeTransfer, signRequestFor, type TestKey } from './payments.ts';

/** Requests to sign that are all different payments of one wallet: each has a nonce and a transaction of its own. */
export function differentPayments(p: {
  policyKey: CryptoKey;
  key: TestKey;
  path?: string;
}): () => Promise<SignRequest> {
  let nonce = 0;
  return () => {
    const transaction = nativeTransfer({ nonce });
    const transactionId = `txn_${p.path ?? 'pays'}_${nonce}`;
    nonce += 1;
    return signRequestFor(p.key, {
      policyKey: p.policyKey,
      ...(p.path && { path: p.path }),
      transaction,
      receipt: (valid) => ({ ...valid, transaction_id: transactionId }),
    });
  };
}

/** How long signatures take; making the request is not counted. Milliseconds. */
export interface TimedSignatures {
  one(): Promise<number>;
  inTurn(n: number): Promise<number[]>;
  /** Some at once, until all are made. */
  atOnce(p: { width: number; total: number; onDone?: (done: number) => void }): Promise<number[]>;
}

/** On a machine that has time, a signature must not take longer, whichever signer stops answering while it is made. */
const leastBoundMs = 2_000;
/** After so long another pair of signers is asked. */
const hedgeMs = 1_000;
const leastAtOnceMs = 900;

/** What a signature may take where one signer does not answer. @param usualMs what others took just before */
export function boundMs(usualMs: readonly number[]): number {
  return Math.max(leastBoundMs, hedgeMs + 5 * Math.max(...usualMs));
}

/** Far less than it takes to find out that a signer does not answer, where the machine has time. @param usualMs as above */
export function atOnceMs(usualMs: readonly number[]): number {
  return Math.max(leastAtOnceMs, 3 * percentile(usualMs, 50));
}

export function timeSignatures(p: { client: SignerClient; nextPayment: () => Promise<SignRequest> }): TimedSignatures {
  async function one(): Promise<number> {
    const request = await p.nextPayment();
    const since = performance.now();
    await p.client.sign(request);
    return performance.now() - since;
  }
  return {
    one,
    async inTurn(n) {
      const took: number[] = [];
      for (let i = 0; i < n; i += 1) took.push(await one());
      return took;
    },
    async atOnce({ width, total, onDone }) {
      const took: number[] = [];
      let begun = 0;
      const lane = async () => {
        while (begun < total) {
          begun += 1;
          took.push(await one());
          onDone?.(took.length);
        }
      };
      await Promise.all(Array.from({ length: width }, lane));
      return took;
    },
  };
}

/** Nearest rank. */
export function percentile(values: readonly number[], percent: number): number {
  return values.toSorted((a, b) => a - b)[Math.ceil((values.length * percent) / 100) - 1]!;
}
