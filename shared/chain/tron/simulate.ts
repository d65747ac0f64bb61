import { failureReason } from '../revert.ts';
import { list, object, wholeOrZero } from './answers.ts';
import { tronCall } from './node.ts';
import { addressWord, transferData } from './transfer-data.ts';

/** A simulated call: what it returned and what it took, or why it would fail. */
export type Simulated =
  | { readonly ok: true; readonly energy: bigint; readonly returned: string }
  | { readonly ok: false; readonly reason: string };

/** What a wallet holds of a token, as of the newest solidified block. */
export function balanceCall({ owner, asset }: { owner: string; asset: string }) {
  return constantCall('walletsolidity', { owner, asset }, 'balanceOf(address)', addressWord(owner));
}

/** The transfer of a token, on the newest block. */
export function transferCall(p: { owner: string; asset: string; to: string; amountMinor: bigint }) {
  const selectorDigits = 8;
  return constantCall('wallet', p, 'transfer(address,uint256)', transferData(p).slice(selectorDigits));
}

function constantCall(
  api: 'wallet' | 'walletsolidity',
  { owner, asset }: { owner: string; asset: string },
  function_selector: string,
  parameter: string,
) {
  const body = { owner_address: owner, contract_address: asset, function_selector, parameter };
  return tronCall(api, 'triggerconstantcontract', body);
}

/**
 * Contracts give their reasons as those of Ethereum do.
 * @param answer to `triggerconstantcontract`
 * @returns undefined where the node could not simulate it
 */
export function readSimulated(answer: unknown): Simulated | undefined {
  const { result, energy_used, constant_result, transaction } = object(answer);
  const { result: isDone, code, message } = object(result);
  const text = plain(message);
  const returned = list(constant_result)[0];
  if (code !== undefined && code !== 'SUCCESS') {
    const isAboutContract = code === 'CONTRACT_VALIDATE_ERROR' && !/does not support constant/i.test(text);
    return isAboutContract ? { ok: false, reason: text } : undefined;
  }
  const energy = wholeOrZero(energy_used);
  if (isDone !== true || typeof returned !== 'string' || energy === undefined) return undefined;
  const ended = object(list(object(transaction).ret)[0]).ret;
  if (text !== '' || ended === 'FAILED')
    return { ok: false, reason: failureReason({ code: 0, text: text || 'it fails', data: `0x${returned}` }) };
  return { ok: true, energy: BigInt(energy), returned };
}

/** Minor units of a token; undefined where the contract says nothing: it is no token. */
export function readTokenAmount({ returned }: { returned: string }): bigint | undefined {
  return /^[0-9a-f]{64}/i.test(returned) ? BigInt(`0x${returned.slice(0, 64)}`) : undefined;
}

/** Nodes write texts in hexadecimal, newer ones as they are. */
function plain(message: unknown): string {
  if (typeof message !== 'string') return '';
  return /^([0-9a-f]{2})+$/i.test(message) ? Buffer.from(message, 'hex').toString('utf8') : message;
}
