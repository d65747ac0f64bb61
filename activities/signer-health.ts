import type { SignerClient } from '../signer/client.ts';

export interface SignerState {
  readonly party: number;
  readonly ok: boolean;
  readonly error?: string;
}

/** Which signers answer, as the signing worker sees them. */
export function createSignerHealth({ signer }: { signer: SignerClient }) {
  return async function signerHealth(): Promise<SignerState[]> {
    const health = await signer.health();
    return health.map(({ party, ok, error }) => (error === undefined ? { party, ok } : { party, ok, error }));
  };
}
