import { randomBytes } from 'node:crypto';
import { authorizationTypes } from '@x402/evm';
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
import { insertSession, type SessionRow, spendBudget } from '../../shared/db/x402-sessions.ts';
import { newId } from '../../shared/ids.ts';
import { reservePayment } from '../../shared/reserve-payment.ts';
import { holdRest } from '../../shared/x402-budget.ts';
import type { ChainWorld, TestWallet } from './chain-world.ts';
import type { TestAgent } from './rows.ts';

const chain = 'eip155:31337';
/** Where the test token lives on every fresh local chain does not matter here: no chain is asked. */
const anyAsset: Address = '0x5FbDB2315678afecb367f032d93F642f64180aa3';
const payee: Address = '0x00000000000000000000000000000000000000bb';
const domain = { name: 'USD Coin', version: '2' };
const [amountMinor, feeMinor] = [10_000n, 100n];
/** What a payment of these takes from its session. */
export const takenMinor = amountMinor + feeMinor;

/** A session with a budget of one dollar, as the api stores it. */
export function insertTestSession(
  pool: Pool,
  agent: TestAgent,
  { asset = anyAsset, ttlSeconds = 3_600 }: { asset?: Address; ttlSeconds?: number } = {},
): Promise<SessionRow> {
  return inTransaction(pool, async (db) => {
    const { accountId, agentId, walletId } = agent;
    const session = await insertSession(db, {
      ...{ id: newId('sess'), accountId, agentId, walletId, chain, token: 'USDC', asset, decimals: 6 },
      ...{ budgetMinor: 1_000_000n, allowedUrls: undefined, ttlSeconds },
    });
    await holdRest(db, { sessionId: session.id });
    return session;
  });
}

/**
 * A payment that has taken from its session, limits and wallet.
 * @param stamp when its authorisation begins and ends to be good, Unix seconds; none: it is not stamped yet
 */
export async function insertTestX402(
  pool: Pool,
  {
    session,
    from,
    stamp,
    isIssued = stamp !== undefined,
  }: { session: SessionRow; from: Address; stamp?: { validAfter: number; validBefore: number }; isIssued?: boolean },
): Promise<X402PaymentRow> {
  const { account_id: accountId, agent_id: agentId, wallet_id: walletId, asset } = session;
  const id = newId('led');
  await inTransaction(pool, async (db) => {
    if (!(await spendBudget(db, { id: session.id, minor: takenMinor }))) throw new Error('The budget is spent.');
    const row = await insertX402Payment(db, {
      ...{ id, sessionId: session.id, accountId, agentId, walletId, chain, token: 'USDC', asset, decimals: 6 },
      ...{ amountMinor, feeMinor, feeRate: '1', fromAddress: from, toAddress: payee },
      ...{ targetUrl: 'https://api.example/weather', method: 'GET', x402Version: 2 as const },
      ...{ offer: { resource: null, accepted: {}, extensions: null }, windowSeconds: 300 },
      ...{ domainName: domain.name, domainVersion: domain.version },
    });
    await reservePayment(db, row, new Date());
    await putHolds(db, { ownerId: id, walletId, chain, holds: [{ asset, amountMinor: takenMinor }] });
    await holdRest(db, { sessionId: session.id });
    if (stamp) await stampX402Payment(db, { id, stamp: { nonce: bytesToHex(randomBytes(32)), ...stamp } });
    if (isIssued) await completeX402Payment(db, { id, paymentSignature: 'header' });
  });
  return (await getX402Payment(pool, { id }))!;
}

const tokenAbi = parseAbi([
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
]);

/** Hands authorisations to the token's contract, as whoever got the header does. */
export interface Facilitator {
  /** Signs and sends, without waiting for a block. @returns the transaction's hash */
  use(o: { payment: X402PaymentRow; wallet: TestWallet }): Promise<Hex>;
}

export async function createFacilitator({ local, node }: ChainWorld): Promise<Facilitator> {
  const facilitator = privateKeyToAccount(generatePrivateKey());
  await local.fund(facilitator.address, { eth: '1000', usdc: '0' });
  return {
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
        domain: { ...domain, chainId: node.chain.id, verifyingContract: payment.asset },
        types: authorizationTypes,
        primaryType: 'TransferWithAuthorization',
        message,
      });
      const { r, s, yParity } = parseSignature(signature);
      const { from, to, value, validAfter, validBefore, nonce } = message;
      return node.writeContract({
        account: facilitator,
        address: payment.asset,
        abi: tokenAbi,
        functionName: 'transferWithAuthorization',
        args: [from, to, value, validAfter, validBefore, nonce, 27 + yParity, r, s],
        // Not simulated: what is too late is to be refused by the contract, in a block.
        gas: 200_000n,
        nonce: await node.getTransactionCount({ address: facilitator.address, blockTag: 'pending' }),
      });
    },
  };
}
