import { createChainAdapter } from '../../../shared/chain/create-adapter.ts';
import type { Chain } from '../../../shared/chain/registry.ts';
import { type Finding, look, lookMs, notChecked, ok, wordsOf, wrong } from './finding.ts';

/** Older than that, the newest block is of a node that does not follow its chain; local chains make blocks when asked. */
const oldestHeadSeconds = 120;
/** `decimals()` of ERC-20. */
const decimalsCall = '0x313ce567';

/**
 * Each node by itself: whether it answers, is of the right chain and follows it, and, where contracts can be asked,
 * whether the tokens have the decimals that we believe.
 * @param urls of its nodes; they may hold keys, so that only hosts are told
 */
export async function checkChain(
  chain: Chain,
  urls: readonly string[] | undefined,
  variable: string,
): Promise<Finding[]> {
  if (!urls) return [notChecked(`nodes of ${chain.id}`, variable)];
  return Promise.all(urls.map((url) => checkNode(chain, url, variable)));
}

function checkNode(chain: Chain, url: string, variable: string): Promise<Finding> {
  const check = `node ${new URL(url).host} of ${chain.id}`;
  const todo = `Check the URL in ${variable}, its key, and whether the node runs`;
  return look(check, `${todo}.`, async () => {
    try {
      if (chain.family === 'evm') return await checkEvmNode(check, chain, url);
      // The adapter refuses a node of another chain itself.
      const { number } = await createChainAdapter({ chain, urls: [url] }).head();
      return ok(check, `block ${number}`);
    } catch (error) {
      return wrong(check, `${wordsOf(error).replaceAll(url, new URL(url).host)}. ${todo}.`);
    }
  });
}

async function checkEvmNode(check: string, chain: Chain, url: string): Promise<Finding> {
  const expected = chain.id.split(':')[1];
  const found = String(Number(await ask<string>(url, 'eth_chainId', [])));
  if (found !== expected) return wrong(check, `it is of chain eip155:${found}. Name nodes of ${chain.id} there.`);
  const head = await ask<{ number: string; timestamp: string }>(url, 'eth_getBlockByNumber', ['latest', false]);
  const ageSeconds = Math.round(Date.now() / 1000 - Number(head.timestamp));
  if (chain.network !== 'local' && ageSeconds > oldestHeadSeconds)
    return wrong(
      check,
      `its newest block ${Number(head.number)} is ${ageSeconds} s old. Wait until it has caught up, or use another one.`,
    );
  for (const { symbol, decimals, asset } of chain.tokens.slice(1)) {
    const to = asset.split(':').at(-1);
    const told = await ask<string>(url, 'eth_call', [{ to, data: decimalsCall }, 'latest']);
    if (told === '0x')
      return wrong(check, `${symbol} (${to}) is no contract there. Correct PURSER_EXTRA_TOKENS or the node.`);
    if (Number(told) !== decimals)
      return wrong(
        check,
        `${symbol} (${to}) has ${Number(told)} decimals there, and ${decimals} here. Correct PURSER_EXTRA_TOKENS before anything is paid.`,
      );
  }
  return ok(
    check,
    `block ${Number(head.number)}, ${Math.max(0, ageSeconds)} s old; decimals of ${chain.tokens.length - 1} tokens agree`,
  );
}

async function ask<T>(url: string, method: string, params: unknown[]): Promise<T> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    signal: AbortSignal.timeout(lookMs),
  });
  if (!response.ok) throw new Error(`it answers HTTP ${response.status}`);
  const { result, error } = (await response.json()) as { result?: T; error?: { message?: string } };
  if (error || result === undefined || result === null) throw new Error(`${method}: ${error?.message ?? 'no result'}`);
  return result;
}
