import fc from 'fast-check';
import {
  encodeFunctionData,
  erc20Abi,
  getAddress,
  type Hex,
  keccak256,
  parseTransaction,
  recoverTransactionAddress,
  serializeSignature,
  serializeTransaction,
} from 'viem';
import { generatePrivateKey, privateKeyToAccount, sign } from 'viem/accounts';
import { describe, expect, it } from 'vitest';
import { assemble } from '../../../shared/chain/evm/assemble.ts';
import { buildTransfer } from '../../../shared/chain/evm/build-transfer.ts';

const address = fc
  .uint8Array({ minLength: 20, maxLength: 20 })
  .map((bytes) => getAddress(`0x${Buffer.from(bytes).toString('hex')}`));
const uint = (bits: number) => fc.bigInt({ min: 0n, max: (1n << BigInt(bits)) - 1n });
const prepared = fc
  .record({ gas: uint(40), maxFee: uint(60), tip: uint(60), minedCount: fc.nat() })
  .map(({ gas, maxFee, tip, minedCount }) => ({
    outcome: 'ready' as const,
    minedCount,
    gas: gas.toString(),
    maxFeePerGasWei: maxFee.toString(),
    maxPriorityFeePerGasWei: (tip % (maxFee + 1n)).toString(),
    maxFeeMinor: (gas * maxFee).toString(),
  }));

describe('a transfer', () => {
  it('of a token is the call that the ABI prescribes, whatever amount and recipient', () => {
    fc.assert(
      fc.property(address, address, uint(256), prepared, fc.nat(), (asset, to, amount, ready, nonce) => {
        const intent = {
          chain: 'eip155:8453',
          asset,
          to,
          amount_minor: amount.toString(),
          max_fee_minor: ready.maxFeeMinor,
        };
        expect(buildTransfer({ intent, nonce, prepared: ready })).toEqual({
          chainId: 8453,
          nonce,
          to: asset,
          valueWei: '0',
          data: encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [to, amount] }),
          gas: ready.gas,
          maxFeePerGasWei: ready.maxFeePerGasWei,
          maxPriorityFeePerGasWei: ready.maxPriorityFeePerGasWei,
        });
      }),
    );
  });

  it('of the native coin carries the amount as value, exactly (F7)', () => {
    const intent = {
      chain: 'eip155:1',
      asset: 'native' as const,
      to: getAddress('0x00000000000000000000000000000000000000aa'),
      amount_minor: '1234567890123456789012345678',
      max_fee_minor: '21000',
    };
    const ready = {
      outcome: 'ready' as const,
      minedCount: 0,
      gas: '21000',
      maxFeePerGasWei: '1',
      maxPriorityFeePerGasWei: '1',
      maxFeeMinor: '21000',
    };
    const built = buildTransfer({ intent, nonce: 7, prepared: ready });
    expect(built).toMatchObject({ to: intent.to, valueWei: '1234567890123456789012345678', data: '0x', nonce: 7 });
    expect(() => buildTransfer({ intent: { ...intent, max_fee_minor: '20999' }, nonce: 7, prepared: ready })).toThrow(
      'may reach 21000 wei',
    );
    expect(() => buildTransfer({ intent: { ...intent, chain: 'tron:0x2b6653dc' }, nonce: 7, prepared: ready })).toThrow(
      'not an EVM chain',
    );
  });

  it('keeps its fields and its sender when signature and transaction are joined', async () => {
    const key = generatePrivateKey();
    const account = privateKeyToAccount(key);
    await fc.assert(
      fc.asyncProperty(address, uint(90), prepared, fc.nat(), async (to, amount, ready, nonce) => {
        const transaction = buildTransfer({
          intent: {
            chain: 'eip155:31337',
            asset: 'native',
            to,
            amount_minor: amount.toString(),
            max_fee_minor: ready.maxFeeMinor,
          },
          nonce,
          prepared: ready,
        });
        const unsigned: Hex = serializeTransaction({
          type: 'eip1559',
          chainId: 31337,
          nonce,
          to,
          value: amount,
          gas: BigInt(ready.gas),
          maxFeePerGas: BigInt(ready.maxFeePerGasWei),
          maxPriorityFeePerGas: BigInt(ready.maxPriorityFeePerGasWei),
        });
        const signature = serializeSignature(await sign({ hash: keccak256(unsigned), privateKey: key }));
        const { raw, hash } = assemble({ transaction, signature });
        expect(hash).toBe(keccak256(raw));
        const signed = raw as `0x02${string}`;
        expect(await recoverTransactionAddress({ serializedTransaction: signed })).toBe(account.address);
        const read = parseTransaction(signed);
        expect([read.value ?? 0n, read.nonce ?? 0, read.to?.toLowerCase()]).toEqual([amount, nonce, to.toLowerCase()]);
      }),
      { numRuns: 30 },
    );
  });
});
