import { setTimeout as delay } from 'node:timers/promises';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import type { ChainAdapter } from '../shared/chain/adapter.ts';
import { createChainAdapter } from '../shared/chain/create-adapter.ts';
import { familyOf } from '../shared/chain/families.ts';
import type { Places } from '../shared/chain/family.ts';
import { createRegistry, type ExtraToken } from '../shared/chain/registry.ts';
import { parseAmount } from '../shared/domain/money.ts';
import { signAlone } from '../signer/recover/send-alone.ts';
import type { FamilyPayment } from './family-payer.ts';

const includeWithinMs = 60_000;
const lookMs = 20;

/** A wallet whose key is in this process, and a chain that it asks by itself: what a payment takes without a service. */
export interface FloorWallet {
  readonly address: string;
  /** Asks the chain, builds, signs, sends and waits for a block. @returns milliseconds until it was signed */
  pay(payment: FamilyPayment): Promise<{ hashMs: number }>;
}

/** Nothing is under way from a wallet that pays one after the other. */
const allFree: Places = { nextNonce: async (minedCount) => minedCount, freeCoins: async (coins) => [...coins] };

/** @param p.chain CAIP-2 id @param p.url of its node */
export function createFloorWallet(p: { chain: string; url: string; extraTokens?: readonly ExtraToken[] }): FloorWallet {
  const registry = createRegistry({ environment: 'sandbox', enabled: [p.chain], extraTokens: p.extraTokens ?? [] });
  const adapter = createChainAdapter({ chain: registry.chain(p.chain)!, urls: [p.url] });
  const family = familyOf(p.chain);
  const privateKey = secp256k1.utils.randomSecretKey();
  const publicKey = `0x${Buffer.from(secp256k1.getPublicKey(privateKey, false)).toString('hex')}` as const;
  const address = family.deriveAddress({ publicKey, chainCode: `0x${'00'.repeat(32)}`, path: 'm', chain: p.chain });
  return {
    address,
    async pay({ chain, token: symbol, amount, to }) {
      const token = registry.token(chain, symbol)!;
      const amountMinor = parseAmount(amount, token.decimals) as bigint;
      const from = performance.now();
      const prepared = await adapter.prepare({ from: address, to, token, amountMinor });
      if (prepared.outcome === 'failed') throw new Error(prepared.message);
      const amounts = { amount_minor: amountMinor.toString(), max_fee_minor: prepared.maxFeeMinor };
      const intent = { chain, asset: token.asset, to, ...amounts };
      const built = await family.build({ intent, from: address, prepared, places: allFree });
      if (built.outcome !== 'built') throw new Error(`The payment cannot be built: ${built.outcome}.`);
      const { raw, hash } = signAlone({ address, privateKey }, { payload: built.payload, chain });
      const hashMs = performance.now() - from;
      const sent = await adapter.send({ raw });
      if (sent.outcome !== 'sent') throw new Error(sent.reason);
      await untilIncluded(adapter, hash);
      return { hashMs };
    },
  };
}

async function untilIncluded(adapter: ChainAdapter, hash: string): Promise<void> {
  for (const deadline = Date.now() + includeWithinMs; Date.now() < deadline; await delay(lookMs)) {
    const [included] = await adapter.inclusions({ hashes: [hash] });
    if (included) return;
  }
  throw new Error(`Transaction ${hash} is in no block after ${includeWithinMs / 1000} s.`);
}
