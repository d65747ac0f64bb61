import type { NextFunction, Request, Response } from 'express';
import { isInNetworks } from '../../shared/domain/networks.ts';
import { PurserError } from '../../shared/errors.ts';
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
    const networks = caller.account.ipAllowlist;
    const address = clientAddressOf(request);
    if (networks.length > 0 && !isInNetworks({ address, networks })) {
      const denial = { accountId: caller.accountId, actor: actorOf(caller), reason: 'address_not_allowed' };
      await noteDenial({ ...denial, action: 'permission.denied' }, { request, response });
      throw new PurserError(
        'insufficient_permissions',
        `This account may not be used from ${address || 'an unknown address'}: that is in none of the networks of its ip_allowlist.`,
      );
    }
    next();
  };
}
