/**
 * A slot is what a chain lets only one thing be executed at: a nonce of a wallet, a nonce of an EIP-3009 authorisation,
 * a coin, or a transaction that has neither and expires. The signers record by it what they signed, and receipts name
 * it: `eip155:1/0xwallet/nonce/7`, `eip155:1/0xtoken/0xwallet/auth/0x…` (both in lower case),
 * `bip122:…/coin/txid/0`, `tron:0x2b6653dc/Twallet/transaction/txid`.
 */

/** So many former slots of a payment a receipt names at most: it must stay small enough to be sent. */
export const replacedSlotsMax = 16;

/** @param p.nonce of the wallet's transaction */
export function transactionSlot(p: { chainId: number; wallet: string; nonce: number }): string {
  return `eip155:${p.chainId}/${p.wallet}/nonce/${p.nonce}`.toLowerCase();
}

/** @param p.nonce of the authorisation, 32 bytes in hex */
export function authorizationSlot(p: {
  domain: { chainId: number; verifyingContract: string };
  from: string;
  nonce: string;
}): string {
  return `eip155:${p.domain.chainId}/${p.domain.verifyingContract}/${p.from}/auth/${p.nonce}`.toLowerCase();
}

/** @param p.txid in hex as explorers show it */
export function coinSlot(p: { chain: string; txid: string; vout: number }): string {
  return `${p.chain}/coin/${p.txid}/${p.vout}`;
}

/** Of a transaction that is bound to no place: a payment gets another one only when this one has expired. */
export function expiringSlot(p: { chain: string; wallet: string; hash: string }): string {
  return `${p.chain}/${p.wallet}/transaction/${p.hash}`;
}
