import { decodeErrorResult, type Hex, parseAbi } from 'viem';
import type { NodeAnswer } from './errors.ts';

/** Errors that tokens use besides `Error(string)` and `Panic(uint256)`. Source: ERC-6093. */
const tokenErrors = parseAbi([
  'error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed)',
  'error ERC20InvalidSender(address sender)',
  'error ERC20InvalidReceiver(address receiver)',
  'error EnforcedPause()',
]);

/** Why it would fail, in words: what the contract gave as its reason, else what the node said. */
export function failureReason(answer: NodeAnswer): string {
  return (
    decoded(answer.data) ?? (answer.data && answer.data !== '0x' ? `error ${answer.data.slice(0, 10)}` : answer.text)
  );
}

function decoded(data: string | undefined): string | undefined {
  if (!data || data === '0x') return undefined;
  try {
    const { errorName, args } = decodeErrorResult({ abi: tokenErrors, data: data as Hex });
    const values = ((args ?? []) as readonly unknown[]).map(String);
    return (errorName as string) === 'Error' ? values[0] : `${errorName}(${values.join(', ')})`;
  } catch {
    return undefined;
  }
}
