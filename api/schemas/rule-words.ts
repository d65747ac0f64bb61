import { z } from 'zod';
import { familyOf, readAddressOfAny } from '../../shared/chain/families.ts';
import type { Registry } from '../../shared/chain/registry.ts';
import { sharesWallet } from '../../shared/chain/shares-wallet.ts';
import type { RuleWords } from '../../shared/domain/policy/types.ts';
import { faultOf } from './common.ts';

/** The words of rules as this installation understands them: addresses of any chain that it serves. */
export function createRuleWords({ registry }: { registry: Registry }): RuleWords {
  const symbols = new Set(registry.chains.flatMap(({ tokens }) => tokens.map(({ symbol }) => symbol)));
  const known = [...symbols].join(', ');
  return {
    address: addressOfAny(registry.chains.map(({ id }) => id)),
    token: z
      .string()
      .refine(
        (value) => symbols.has(value.toUpperCase()),
        faultOf('invalid_token', `is no token that is known here. Known are: ${known}.`),
      )
      .overwrite((value) => value.toUpperCase())
      .meta({ description: 'Symbol in any case; answered in capitals.', example: 'USDC' }),
  };
}

/** An address that can be paid on one chain at least, brought into its one written form. @param served CAIP-2 ids */
function addressOfAny(served: readonly string[]): z.ZodType<string> {
  const chains = apart(served);
  return z
    .string()
    .superRefine((value, context) => {
      const read = readAddressOfAny(value, chains);
      if ('address' in read) return;
      const sentence = read.fault === 'malformed' ? whatFits(value, chains) : read.sentence;
      const { error: message, params } = faultOf('invalid_address', sentence);
      context.addIssue({ code: 'custom', message, params });
    })
    .overwrite((value) => {
      const read = readAddressOfAny(value, chains);
      return 'address' in read ? read.address : value;
    })
    .meta({
      description:
        "Address on the chain of the agent; answered in that chain's one written form, such as with its checksum. A template may name addresses of any chain that is served here, and is applied only to agents that can pay them.",
      example: '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF',
    });
}

/** One of each kind of address: chains that share wallets read addresses alike. */
function apart(chains: readonly string[]): string[] {
  return chains.filter((chain, index) => chains.findIndex((each) => sharesWallet(each, chain)) === index);
}

/** What an address would be on each of these chains. */
function whatFits(value: string, chains: readonly string[]): string {
  const sentences = chains.flatMap((chain) => {
    const read = familyOf(chain).readAddress(value, chain);
    return 'fault' in read ? [{ chain, sentence: read.sentence }] : [];
  });
  if (sentences.length === 1) return sentences[0]!.sentence;
  const each = sentences.map(({ chain, sentence }) => `On ${chain} it ${sentence}`);
  return `is no address of any chain that is served here. ${each.join(' ')}`;
}
