import { getAddress, type Hex, hashTypedData, isAddressEqual, recoverAddress } from 'viem';
import type { TransferAuthorization } from '../../domain/receipt.ts';
import type { AuthorizationStamp } from '../../domain/x402.ts';
import { evmChainId } from './chain-id.ts';

/** Source: EIP-3009. */
const types = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const;

/** The one authorisation that pays for a stamp. Pure: the same input gives the same bytes. */
export function buildAuthorization({
  chain,
  asset,
  domain,
  from,
  to,
  amountMinor,
  stamp,
}: {
  chain: string;
  asset: string;
  domain: { name: string; version: string };
  from: string;
  to: string;
  amountMinor: string;
  stamp: AuthorizationStamp;
}): TransferAuthorization {
  return {
    domain: { ...domain, chainId: evmChainId(chain), verifyingContract: getAddress(asset) },
    from: getAddress(from),
    to: getAddress(to),
    value: amountMinor,
    validAfter: stamp.validAfter,
    validBefore: stamp.validBefore,
    nonce: stamp.nonce,
  };
}

/** What is signed for it: the EIP-712 digest of `TransferWithAuthorization`. */
export function hashAuthorization({ domain, ...message }: TransferAuthorization): Hex {
  return hashTypedData({
    domain,
    types,
    primaryType: 'TransferWithAuthorization',
    message: {
      ...message,
      value: BigInt(message.value),
      validAfter: BigInt(message.validAfter),
      validBefore: BigInt(message.validBefore),
    },
  });
}

/** Whether a signature is the payer's, and of just this authorisation. @param signature r | s | v, 65 bytes */
export async function isSignedByPayer(authorization: TransferAuthorization, signature: Hex): Promise<boolean> {
  const hash = hashAuthorization(authorization);
  const signer = await recoverAddress({ hash, signature }).catch(() => undefined);
  return signer !== undefined && isAddressEqual(signer, authorization.from);
}
