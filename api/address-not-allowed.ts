import { isInNetworks } from '../shared/domain/networks.ts';
import { PurserError } from '../shared/errors.ts';
import type { Known } from './unauthenticated.ts';

/** Somebody uses an account from outside the networks that it has named. */
export class AddressNotAllowed extends PurserError {
  /** Who, for the audit log. */
  readonly known: Known;

  constructor({ address, known }: { address: string | null; known: Known }) {
    super(
      'insufficient_permissions',
      `This account may not be used from ${address || 'an unknown address'}: that is in none of the networks of its ip_allowlist.`,
    );
    this.known = known;
  }
}

/** @param networks CIDR; none: from anywhere. @throws AddressNotAllowed */
export function requireAllowedAddress({
  networks,
  address,
  known,
}: {
  networks: readonly string[];
  /** Of the client; null where it has none. */
  address: string | null;
  known: Known;
}): void {
  if (networks.length > 0 && !isInNetworks({ address: address ?? '', networks }))
    throw new AddressNotAllowed({ address, known });
}
