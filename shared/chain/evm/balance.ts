import type { Address, Hex } from 'viem';
import type { TokenBalance } from '../adapter.ts';
import type { Token } from '../registry.ts';
import { newestNumber } from './agreement.ts';
import type { EvmClient } from './client.ts';
import { ask } from './rpc.ts';
import { type Simulated, simulateCall } from './simulate.ts';
import { balanceOfData } from './transfer-data.ts';

/** Wei that an account holds as of a block. @throws RpcUnavailable, also when the node has not seen the block yet */
export async function nativeBalanceAt(
  client: EvmClient,
  { owner, block }: { owner: string; block: Hex },
): Promise<bigint> {
  return BigInt(await ask(client.request({ method: 'eth_getBalance', params: [owner as Address, block] })));
}

/**
 * Minor units of a token that an account holds as of a block, or why the contract does not say.
 * @throws RpcUnavailable, also when the node has not seen the block yet
 */
export async function tokenBalanceAt(
  client: EvmClient,
  { asset, owner, block }: { asset: Address; owner: string; block: Hex },
): Promise<Simulated<bigint>> {
  const call = { from: owner as Address, to: asset, value: '0x0' as const, data: balanceOfData({ owner }) };
  const result = await simulateCall(client, call, { block });
  if (!result.ok) return result;
  // An account without code answers every call with nothing.
  if (!/^0x[0-9a-f]{64}/i.test(result.value)) return { ok: false, reason: `there is no token at ${asset}` };
  return { ok: true, value: BigInt(result.value.slice(0, 66)) };
}

/** What an account holds of each token as of the newest block. @throws RpcUnavailable */
export async function balances(
  client: EvmClient,
  { owner, tokens }: { owner: string; tokens: readonly Token[] },
): Promise<{ atBlock: number; data: TokenBalance[] }> {
  const block = await newestNumber(client);
  const data = await Promise.all(
    tokens.map(async (token): Promise<TokenBalance> => {
      if (token.asset === 'native') return { token, amountMinor: await nativeBalanceAt(client, { owner, block }) };
      const held = await tokenBalanceAt(client, { asset: token.asset as Address, owner, block });
      return held.ok ? { token, amountMinor: held.value } : { token, error: held.reason };
    }),
  );
  return { atBlock: Number(block), data };
}
