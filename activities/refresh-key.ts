import { cancellationSignal } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { SignerClient } from '../signer/client.ts';
import { RefreshBlocked } from '../signer/errors.ts';
import { withSigners } from './sign.ts';

/** A key whose shares are to be made anew. */
export interface RefreshKeyRequest {
  readonly keyId: string;
  readonly complete: boolean;
  /** Shares that were made at or after this instant, in ms, stay: a repeat changes nothing. */
  readonly olderThanMs: number;
}

/**
 * Has the three signers make new shares of a key, and goes on with what an earlier attempt has begun.
 * @returns the epoch that all three have now
 * @throws as {@link withSigners} does, and ApplicationFailure `RefreshBlocked`, not retryable: an operator has to help
 */
export function createRefreshKey({ signer }: { signer: SignerClient }) {
  return async function refreshKey(request: RefreshKeyRequest): Promise<{ readonly epoch: number }> {
    const refresh = () =>
      signer.refreshKey({ ...request, signal: cancellationSignal() }).catch((error: unknown) => {
        if (!(error instanceof RefreshBlocked)) throw error;
        throw ApplicationFailure.nonRetryable(error.message, 'RefreshBlocked', error.reason);
      });
    const { epoch } = await withSigners(refresh, { knowsFreezes: true });
    return { epoch };
  };
}
