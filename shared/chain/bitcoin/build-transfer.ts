import type { PaymentIntent, TransactionPayload } from '../../domain/receipt.ts';
import type { BuildResult, Places } from '../family.ts';
import { chooseCoins } from './choose-coins.ts';
import type { BitcoinPrepared } from './prepared.ts';
import { refusalOf } from './quote-transfer.ts';

/**
 * The one transaction that carries out an intent: coins that no other payment has, the payee, and what is left back to
 * the wallet.
 * @param p.from address of the wallet
 * @returns `wait` when the free coins do not suffice: payments under way give change back, and what the chain says next
 *   counts with it. What it costs depends on which coins are free, and may be more than was foreseen
 * @throws RangeError for what nodes would not pass on: `prepare` refuses it
 */
export async function buildTransfer({
  intent,
  from,
  prepared,
  places,
}: {
  intent: PaymentIntent;
  from: string;
  prepared: Pick<BitcoinPrepared, 'coins' | 'satPerKvb' | 'ceilingSatPerKvb'>;
  places: Pick<Places, 'freeCoins'>;
}): Promise<BuildResult> {
  const { chain, to } = intent;
  const payment = { chain, from, to, amountSat: BigInt(intent.amount_minor) };
  const refusal = refusalOf(payment);
  if (refusal) throw new RangeError(`This payment cannot be built: ${refusal}.`);
  const coins = await places.freeCoins(prepared.coins);
  const chosen = chooseCoins({ payment, coins, rates: prepared });
  if (!chosen) return { outcome: 'wait' };
  const inputs = chosen.coins.map(({ txid, vout, valueSat }) => ({ txid, vout, valueSat }));
  const outputs = [{ address: to, valueSat: intent.amount_minor }];
  if (chosen.changeSat > 0n) outputs.push({ address: from, valueSat: chosen.changeSat.toString() });
  return {
    outcome: 'built',
    payload: {
      kind: 'bitcoin-transaction',
      transaction: { chain, inputs, outputs, lockTime: 0 },
    } satisfies TransactionPayload,
    nonce: null,
    coins: inputs.map(({ txid, vout }) => ({ txid, vout })),
  };
}
