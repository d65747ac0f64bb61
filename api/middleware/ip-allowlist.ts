import type { NextFunction, Request, Response } from 'express';
import { AddressNotAllowed, requireAllowedAddress } from '../address-not-allowed.ts';
import { actorOf, type Caller } from '../caller.ts';
import { clientAddressOf } from '../client-address.ts';
import type { NoteDenial } from '../denial-log.ts';

/**
 * Refuses whoever uses an account from outside the networks that it has named, with whatever credential. Stands right
 * behind authentication; the list is read with the credential, so that a change holds for the next request.
 */
export function createIpAllowlist({ noteDenial }: { noteDenial: NoteDenial }) {
  return async function ipAllowlist(request: Request, response: Response, next: NextFunction): Promise<void> {
    const { caller } = response.locals as { caller: Caller };
    const known = { accountId: caller.accountId, actor: actorOf(caller) };
    try {
      requireAllowedAddress({ networks: caller.account.ipAllowlist, address: clientAddressOf(request), known });
    } catch (error) {
      if (error instanceof AddressNotAllowed)
        await noteDenial(
          { ...known, action: 'permission.denied', reason: 'address_not_allowed' },
          { request, response },
        );
      throw error;
    }
    next();
  };
}
