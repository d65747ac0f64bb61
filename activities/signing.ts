import type { SignerClient } from '../signer/client.ts';
import { createGenerateKey } from './generate-key.ts';
import { createSign } from './sign.ts';
import { createSignAuthorization } from './sign-authorization.ts';
import { createSignerHealth } from './signer-health.ts';

/** Activities of queue `wallet-signing`: they reach the signers, and nothing else. */
export function createSigningActivities(deps: { readonly signer: SignerClient }) {
  return {
    sign: createSign(deps),
    signAuthorization: createSignAuthorization(deps),
    generateKey: createGenerateKey(deps),
    signerHealth: createSignerHealth(deps),
  };
}
export type SigningActivities = ReturnType<typeof createSigningActivities>;
