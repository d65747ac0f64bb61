/**
 * A slot is what a chain lets only one thing be executed at: a nonce of a wallet, or a nonce of an EIP-3009
 * authorisation. The signers record by it what they signed, and receipts name it. Written in lower case:
 * `eip155:1/0xwallet/nonce/7`, `eip155:1/0xtoken/0xwallet/auth/0x…`.
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
