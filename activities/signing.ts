import type { SignerClient } from '../signer/client.ts';
import { createGenerateKey } from './generate-key.ts';
import { createEndUnsigned } from './give-back-nonce.ts';
import { createInspectSigners } from './inspect-signers.ts';
import { createListDueKeys } from './list-due-keys.ts';
import { createListSigned, createReadSigned } from './list-signed.ts';
import { createRefreshKey } from './refresh-key.ts';
import { createSign } from './sign.ts';
import { createSignAuthorization } from './sign-authorization.ts';
import { createSignerHealth } from './signer-health.ts';
import { createTellSigners } from './tell-signers.ts';

/** Activities of queue `wallet-signing`: they reach the signers, and nothing else. */
export function createSigningActivities(deps: { readonly signer: SignerClient; readonly clock?: () => Date }) {
  return {
    sign: createSign(deps),
    signAuthorization: createSignAuthorization(deps),
    endUnsigned: createEndUnsigned(deps),
    generateKey: createGenerateKey(deps),
    tellSigners: createTellSigners(deps),
    signerHealth: createSignerHealth(deps),
    inspectSigners: createInspectSigners(deps),
    listDueKeys: createListDueKeys(deps),
    refreshKey: createRefreshKey(deps),
    listSigned: createListSigned(deps),
    readSigned: createReadSigned(deps),
  };
}
export type SigningActivities = ReturnType<typeof createSigningActivities>;
