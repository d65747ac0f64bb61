import type { Hex } from 'viem';
import type { SignPayload } from '../shared/domain/receipt.ts';
import type { CoordinatorIdentity } from './identity.ts';

export type Party = 1 | 2 | 3;

/** Where one signer listens, and its public identity (`<ed25519>.<x25519>`, base64url). */
export interface SignerEndpoint {
  party: Party;
  url: string;
  publicKey: string;
}

/** One signature over one whole transaction. JSON-safe. */
export interface SignRequest {
  /** Id of the account's key. */
  keyId: string;
  /** Child path of the wallet, for example `m/44/60/0/0/7`. */
  path: string;
  /** Address of the wallet; the signature must recover to it. */
  address: string;
  payload: SignPayload;
  /** Compact JWS by the policy step; see shared/receipt.ts. */
  receipt: string;
}

export interface SignerHealth {
  party: Party;
  ok: boolean;
  error?: string;
  latencyMs: number;
}

export interface SignerClient {
  /** Health of each signer; never throws. */
  health(): Promise<SignerHealth[]>;
  /**
   * Distributed key generation among all three. Resolves only after all three have stored and read back their sealed
   * share and agree on public key and chain code. The key id must be fresh: one that was ever used, also in an attempt
   * that failed, is refused, so take a new id for each attempt.
   * @returns uncompressed public key (65 bytes) and BIP-32 chain code (32 bytes).
   * @throws SignerUnavailable, SignRefused (`key_exists`), SignerFault
   */
  generateKey(p: { keyId: string; signal?: AbortSignal }): Promise<{ keyId: string; publicKey: Hex; chainCode: Hex }>;
  /**
   * Signs with any two of the three, and falls over to another pair when one is down or slow. Bounded in time.
   * @returns r | s | v (65 bytes, low s, v 27 or 28) and the digest that was signed.
   * @throws SignerUnavailable, SignRefused, SignerFault
   */
  sign(p: SignRequest): Promise<{ signature: Hex; digest: Hex }>;
  /** Closes kept-alive connections. */
  close(): void;
}

export interface SignerClientOptions {
  signers: readonly SignerEndpoint[];
  identity: CoordinatorIdentity;
}

export declare function createSignerClient(o: SignerClientOptions): SignerClient;
