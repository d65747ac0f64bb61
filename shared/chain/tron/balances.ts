import type { TokenBalance } from '../adapter.ts';
import type { Token } from '../registry.ts';
import { readAccount } from './answers.ts';
import { type TronEndpoints, tronCall } from './node.ts';
import { balanceCall, readSimulated, readTokenAmount, type Simulated } from './simulate.ts';
import { viewSolid } from './solid-view.ts';

export const accountCall = (address: string) => tronCall('walletsolidity', 'getaccount', { address });

/** What an account holds of each token, as of the newest solidified block. @throws RpcUnavailable */
export async function balances(
  endpoints: TronEndpoints,
  { owner, tokens }: { owner: string; tokens: readonly Token[] },
): Promise<{ atBlock: number; data: TokenBalance[] }> {
  const calls = tokens.map(({ asset }) => (asset === 'native' ? accountCall(owner) : balanceCall({ owner, asset })));
  const view = await viewSolid(endpoints, calls);
  const data = tokens.map((token, index): TokenBalance => {
    if (token.asset === 'native') return { token, amountMinor: view.said(index, readAccount).balanceSun };
    const held = tokenBalance(token, view.said(index, readSimulated));
    return typeof held === 'bigint' ? { token, amountMinor: held } : { token, error: held.reason };
  });
  return { atBlock: view.block.number, data };
}

/** Minor units, or why the contract does not say. */
export function tokenBalance({ asset }: Token, simulated: Simulated): bigint | { readonly reason: string } {
  if (!simulated.ok) return simulated;
  return readTokenAmount(simulated) ?? { reason: `there is no token at ${asset}` };
}

/** What a replacement would be paid from; nothing on Tron can be replaced. @throws RpcUnavailable */
export async function replacementTerms(
  endpoints: TronEndpoints,
  { owner }: { owner: string },
): Promise<{ atBlock: number; nativeBalanceMinor: string }> {
  const view = await viewSolid(endpoints, [accountCall(owner)]);
  return { atBlock: view.block.number, nativeBalanceMinor: view.said(0, readAccount).balanceSun.toString() };
}
