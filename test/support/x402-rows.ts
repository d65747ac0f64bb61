import { randomBytes } from 'node:crypto';
import { type Address, bytesToHex, type Hex, parseAbi, parseSignature } from 'viem';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { putHolds } from '../../shared/db/holds.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import {
  completeX402Payment,
  getX402Payment,
  insertX402Payment,
  stampX402Payment,
  type X402PaymentRow,
} from '../../shared/db/x402-payments.ts';
import { getSession, insertSession, type SessionRow, spendBudget } from '../../shared/db/x402-sessions.ts';
import { newId } from '../../shared/ids.ts';
import { reservePayment } from '../../shared/reserve-payment.ts';
import { holdRest } from '../../shared/x402-budget.ts';
import type { ChainWorld, TestWallet } from './chain-world.ts';

const tokenAbi = parseAbi([
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
]);
const transferTypes = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const;

export const payee: Address = '0x00000000000000000000000000000000000000bb';
const amountMinor = 10_000n;
const feeMinor = 100n;

/** Rows of sessions and payments as api and workflows leave them, and a facilitator, on the chain of a test. */
export interface X402Rows {
  session(wallet: TestWallet, o?: { budgetMinor?: bigint }): Promise<SessionRow>;
  /** A payment with an authorisation that is good for some seconds of the chain's time from now. */
  stamped(o: {
    session: SessionRow;
    wallet: TestWallet;
    seconds?: number;
    isIssued?: boolean;
  }): Promise<X402PaymentRow>;
  /** Hands the authorisation to the contract, without waiting for a block. @returns the transaction's hash */
  use(o: { payment: X402PaymentRow; wallet: TestWallet }): Promise<Hex>;
  payment(id: string): Promise<X402PaymentRow>;
  findSession(id: string): Promise<SessionRow>;
  holds(ownerId: string): Promise<{ amount_minor: string; closed_block: string | null }[]>;
  reservationState(paymentId: string): Promise<string | undefined>;
}

export async function createX402Rows(world: ChainWorld): Promise<X402Rows> {
  const { pool, usdc, node, local } = world;
  const facilitator = privateKeyToAccount(generatePrivateKey());
  await local.fund(facilitator.address, { eth: '1000', usdc: '0' });
  const common = ({ accountId, agentId, walletId }: TestWallet) => ({
    accountId,
    agentId,
    walletId,
    chain: local.chain,
    token: usdc.symbol,
    asset: usdc.asset as Address,
    decimals: usdc.decimals,
  });
  return {
    session: (wallet, { budgetMinor = 1_000_000n } = {}) =>
      inTransaction(pool, async (db) => {
        const id = newId('sess');
        const session = await insertSession(db, {
          id,
          ...common(wallet),
          budgetMinor,
          allowedUrls: undefined,
          ttlSeconds: 3_600,
        });
        await holdRest(db, { sessionId: id });
        return session;
      }),
    async stamped({ session, wallet, seconds = 60, isIssued = true }) {
      const now = Number((await node.getBlock()).timestamp);
      const stamp = { nonce: bytesToHex(randomBytes(32)), validAfter: now - 600, validBefore: now + seconds };
      const id = newId('led');
      await inTransaction(pool, async (db) => {
        if (!(await spendBudget(db, { id: session.id, minor: amountMinor + feeMinor }))) throw new Error('no budget');
        const row = await insertX402Payment(db, {
          id,
          sessionId: session.id,
          ...common(wallet),
          amountMinor,
          feeMinor,
          feeRate: '1',
          fromAddress: wallet.account.address,
          toAddress: payee,
          targetUrl: 'https://api.example/weather',
          method: 'GET',
          x402Version: 2,
          offer: { resource: null, accepted: {}, extensions: null },
          domainName: usdc.domain!.name,
          domainVersion: usdc.domain!.version,
          windowSeconds: Math.max(seconds, 30),
        });
        await reservePayment(db, row, new Date());
        const place = { walletId: wallet.walletId, chain: local.chain };
        await putHolds(db, { ownerId: id, ...place, holds: [{ asset: row.asset, amountMinor }] });
        await holdRest(db, { sessionId: session.id });
        await stampX402Payment(db, { id, stamp });
        if (isIssued) await completeX402Payment(db, { id, paymentSignature: 'header' });
      });
      return (await getX402Payment(pool, { id }))!;
    },
    async use({ payment, wallet }) {
      const message = {
        from: payment.from_address,
        to: payment.to_address,
        value: BigInt(payment.amount_minor),
        validAfter: BigInt(payment.valid_after!),
        validBefore: BigInt(payment.valid_before!),
        nonce: payment.auth_nonce!,
      };
      const signature = await wallet.account.signTypedData({
        domain: { ...usdc.domain!, chainId: node.chain.id, verifyingContract: payment.asset },
        types: transferTypes,
        primaryType: 'TransferWithAuthorization',
        message,
      });
      const { r, s, yParity } = parseSignature(signature);
      const nonce = await node.getTransactionCount({ address: facilitator.address, blockTag: 'pending' });
      return node.writeContract({
        account: facilitator,
        address: payment.asset,
        abi: tokenAbi,
        functionName: 'transferWithAuthorization',
        args: [
          message.from,
          message.to,
          message.value,
          message.validAfter,
          message.validBefore,
          message.nonce,
          27 + yParity,
          r,
          s,
        ],
        gas: 200_000n,
        nonce,
      });
    },
    payment: async (id) => (await getX402Payment(pool, { id }))!,
    findSession: async (id) => (await getSession(pool, { id }))!,
    holds: async (ownerId) => rows(pool, 'select amount_minor, closed_block from holds where owner_id = $1', ownerId),
    reservationState: async (paymentId) =>
      (await rows<{ state: string }>(pool, 'select state from reservations where payment_id = $1', paymentId))[0]
        ?.state,
  };
}

async function rows<T extends object>(pool: Pool, query: string, id: string): Promise<T[]> {
  return (await pool.query<T>(query, [id])).rows;
}
