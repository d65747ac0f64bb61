import { z } from 'zod';
import { type AddressFault, parseAddress } from '../../shared/chain/parse-address.ts';
import type { ChainFamily, Registry } from '../../shared/chain/registry.ts';
import type { RuleWords } from '../../shared/domain/policy/types.ts';
import { faultOf } from './common.ts';

const addressSentences: Readonly<Record<AddressFault, string>> = {
  malformed: 'must be 0x and 40 hexadecimal digits.',
  checksum: 'has a wrong checksum (EIP-55): a digit is mistyped. Copy it again.',
  zero: 'is the zero address: nothing can be paid to it.',
};

/**
 * The words of rules as this installation understands them.
 * @param family of the chain on which the policy's agent pays: what an address is
 */
export function createRuleWords({ registry, family }: { registry: Registry; family: ChainFamily }): RuleWords {
  const symbols = new Set(registry.chains.flatMap(({ tokens }) => tokens.map(({ symbol }) => symbol)));
  const known = [...symbols].join(', ');
  return {
    address: z
      .string()
      .superRefine((value, context) => {
        const address = parseAddress(value, { family });
        if (address.startsWith('0x')) return;
        const fault = faultOf('invalid_address', addressSentences[address as AddressFault]);
        context.addIssue({ code: 'custom', message: fault.error, params: fault.params });
      })
      .overwrite((value) => {
        const address = parseAddress(value, { family });
        return address.startsWith('0x') ? address : value;
      })
      .meta({
        description: 'Address; answered with its checksum.',
        example: '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF',
      }),
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
