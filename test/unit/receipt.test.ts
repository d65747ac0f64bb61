import { type CryptoKey, generateKeyPair, SignJWT } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PolicyReceipt } from '../../shared/domain/receipt.ts';
import { signReceipt, verifyReceipt } from '../../shared/receipt.ts';

const now = new Date('2026-03-01T00:00:00Z');
const iat = now.getTime() / 1000;
let policy: { privateKey: CryptoKey; publicKey: CryptoKey };
beforeAll(async () => {
  policy = await generateKeyPair('EdDSA');
});

const evm = '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF';
const tron = 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8';
const bitcoin = 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4';
const BITCOIN = 'bip122:000000000019d6689c085ae165831e93';

const receipt = (p: { chain: string; asset?: string; to: string; wallet: string }): PolicyReceipt => ({
  ...{ account_id: 'acct_1', agent_id: 'agent_1', transaction_id: 'txn_1', decision_id: 'dec_1' },
  wallet: { key_id: 'ckey_1', path: 'm/44/0/0/0/7', address: p.wallet },
  intent: { chain: p.chain, asset: p.asset ?? 'native', to: p.to, amount_minor: '1', max_fee_minor: '1' },
  ...{ iat, exp: iat + 60 },
});

describe('a policy receipt', () => {
  it.each([
    { chain: 'eip155:8453', to: evm, wallet: evm },
    { chain: 'eip155:8453', to: evm.toLowerCase(), wallet: evm, asset: evm.toLowerCase() },
    { chain: 'tron:0x2b6653dc', to: tron, wallet: tron },
    { chain: 'tron:0x2b6653dc', to: tron, wallet: tron, asset: 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t' },
    { chain: BITCOIN, to: bitcoin, wallet: bitcoin },
    ...[
      '1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH',
      '3EktnHQD7RiAE6uzMj2ZifT9YgRrkSgzQX',
      'bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3',
      'bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr',
      'bcrt1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqp3mvzv',
    ].map((to) => ({ chain: BITCOIN, to, wallet: bitcoin })),
  ])('is for $to on $chain', async (p) => {
    const signed = await signReceipt(policy.privateKey, receipt(p));
    expect(await verifyReceipt(policy.publicKey, { receipt: signed, now })).toEqual(receipt(p));
  });

  it.each([
    [{ chain: 'eip155:8453', to: tron, wallet: evm }, 'intent.to'],
    [{ chain: 'eip155:8453', to: bitcoin, wallet: evm }, 'intent.to'],
    [{ chain: 'eip155:8453', to: `${evm}0`, wallet: evm }, 'intent.to'],
    [{ chain: 'eip155:8453', to: evm.slice(2), wallet: evm }, 'intent.to'],
    [{ chain: 'eip155:8453', to: evm, wallet: tron }, 'wallet.address'],
    [{ chain: 'eip155:8453', to: evm, wallet: evm, asset: tron }, 'intent.asset'],
    [{ chain: 'eip155:8453', to: evm, wallet: evm, asset: 'USDC' }, 'intent.asset'],
    [{ chain: 'tron:0x2b6653dc', to: evm, wallet: tron }, 'intent.to'],
    [{ chain: 'tron:0x2b6653dc', to: `${tron}1`, wallet: tron }, 'intent.to'],
    [{ chain: 'tron:0x2b6653dc', to: tron, wallet: tron, asset: evm }, 'intent.asset'],
    [{ chain: BITCOIN, to: evm, wallet: bitcoin }, 'intent.to'],
    [{ chain: BITCOIN, to: bitcoin.toUpperCase(), wallet: bitcoin }, 'intent.to'],
    [{ chain: BITCOIN, to: bitcoin, wallet: bitcoin, asset: tron }, 'intent.asset'],
    [{ chain: BITCOIN, to: bitcoin, wallet: evm }, 'wallet.address'],
    [{ chain: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp', to: tron, wallet: tron }, 'intent.chain'],
    [{ chain: 'constructor', to: tron, wallet: tron }, 'intent.chain'],
  ] as const)('is none as %j, at %s', async (p, at) => {
    await expect(signReceipt(policy.privateKey, receipt(p))).rejects.toThrow();
    const signed = await new SignJWT({ ...receipt(p) })
      .setProtectedHeader({ alg: 'EdDSA', typ: 'purser-receipt+jwt' })
      .sign(policy.privateKey);
    await expect(verifyReceipt(policy.publicKey, { receipt: signed, now })).rejects.toMatchObject({
      reason: 'receipt_invalid',
      message: `the policy receipt is not valid at ${at}`,
    });
  });
});
