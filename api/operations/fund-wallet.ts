import type { Logger } from '../../shared/log.ts';

/** Longest wait for the faucet: its transfers are mined by then, or the agent is answered without. */
const faucetWaitMs = 5_000;

export type Fund = (wallet: { address: string; chain: string; log: Logger }) => Promise<void>;

/**
 * Asks the local chain's faucet for the first coins of a wallet. Sandbox only; a failure is logged and otherwise ignored,
 * because the agent exists either way.
 */
export function createFundWallet({ faucetUrl }: { faucetUrl: string }): Fund {
  const url = new URL('fund', faucetUrl.endsWith('/') ? faucetUrl : `${faucetUrl}/`);
  return async function fundWallet({ address, chain, log }) {
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ address, chain }),
        signal: AbortSignal.timeout(faucetWaitMs),
      });
      await response.body?.cancel();
      if (!response.ok) throw new Error(`The faucet answered ${response.status}.`);
    } catch (error) {
      log.warn({ err: error, address }, 'the new wallet was not funded');
    }
  };
}
