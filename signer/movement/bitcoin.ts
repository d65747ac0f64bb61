import type { BitcoinTransaction } from '../../shared/domain/receipt.ts';
import { Refusal } from '../refusal.ts';
import type { Movement } from './movement.ts';

/**
 * One output to somebody else is the payment, one to the wallet itself is its change. A single output to the wallet is a
 * no-op: so nobody is paid who is the wallet itself.
 * @throws Refusal `unsupported_call` for other outputs, or for more than there is
 */
export function readBitcoinMovement({ chain, inputs, outputs }: BitcoinTransaction, wallet: string): Movement {
  const payees = outputs.filter(({ address }) => address !== wallet);
  if (payees.length > 1 || outputs.length - payees.length > 1) {
    throw new Refusal(
      'unsupported_call',
      'outputs must be one to the payee and at most one to the wallet itself, or a single one to the wallet itself',
    );
  }
  const feeSat = sumOf(inputs) - sumOf(outputs);
  if (feeSat < 0n) {
    throw new Refusal('unsupported_call', `outputs are of ${-feeSat} sat more than the inputs`);
  }
  const [payee] = payees;
  return {
    ...{ chain, asset: 'native', to: payee?.address ?? wallet, amountMinor: BigInt(payee?.valueSat ?? 0) },
    ...{ maxFeeMinor: feeSat, feeUnit: 'sat', isNoop: payee === undefined },
  };
}

const sumOf = (of: readonly { valueSat: string }[]) => of.reduce((sum, { valueSat }) => sum + BigInt(valueSat), 0n);
