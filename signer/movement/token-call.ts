import { decodeFunctionData, encodeFunctionData, erc20Abi, type Hex } from 'viem';
import { Refusal } from '../refusal.ts';

/**
 * Reads exactly `transfer(address,uint256)`, encoded the one canonical way: decoding and encoding again must give the
 * same bytes, so no dirty padding and no trailing bytes.
 * @throws Refusal `unsupported_call`
 */
export function readTokenCall(data: Hex): { to: Hex; amountMinor: bigint } {
  const args = decodeTransfer(data);
  if (!args || encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args }) !== data) {
    throw new Refusal(
      'unsupported_call',
      'call data is not exactly transfer(address,uint256); no other call is signed',
    );
  }
  return { to: args[0], amountMinor: args[1] };
}

function decodeTransfer(data: Hex): readonly [Hex, bigint] | undefined {
  try {
    const call = decodeFunctionData({ abi: erc20Abi, data });
    return call.functionName === 'transfer' ? call.args : undefined;
  } catch {
    return undefined;
  }
}
