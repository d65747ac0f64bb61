import type { TransactionPayload } from '../domain/receipt.ts';
import { bitcoinFamily } from './bitcoin/family.ts';
import { evmFamily } from './evm/family.ts';
import type { Family, ReadAddress } from './family.ts';
import { tronFamily } from './tron/family.ts';

/** By the namespace of CAIP-2 ids: also of chains that are no longer served here. */
const families: Readonly<Record<string, Family>> = { eip155: evmFamily, bip122: bitcoinFamily, tron: tronFamily };

/** @param chain CAIP-2 id */
export function familyOf(chain: string): Family {
  const family = families[chain.split(':', 1)[0]!];
  if (!family) throw new Error(`The family of chain ${chain} is not known.`);
  return family;
}

const byKind: Readonly<Record<TransactionPayload['kind'], Family>> = {
  'evm-transaction': evmFamily,
  'bitcoin-transaction': bitcoinFamily,
  'tron-transaction': tronFamily,
};

export function familyOfPayload({ kind }: TransactionPayload): Family {
  return byKind[kind];
}

/**
 * Reads an address of any of these chains; of those that it could be of, the first decides.
 * @param chains CAIP-2 ids, one or more
 */
export function readAddressOfAny(text: string, chains: readonly string[]): ReadAddress {
  const read = chains.map((chain) => familyOf(chain).readAddress(text, chain));
  return (
    read.find((each) => 'address' in each) ??
    read.find((each) => 'fault' in each && each.fault !== 'malformed') ??
    read[0]!
  );
}
