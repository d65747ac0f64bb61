import { createRuleWords } from '../../../../api/schemas/rule-words.ts';
import { createRegistry } from '../../../../shared/chain/registry.ts';
import { parseAmount } from '../../../../shared/domain/money.ts';
import type { PolicyContext, PolicyPayment } from '../../../../shared/domain/policy/types.ts';
import { createUsage, type UsageEntry } from '../../../../shared/domain/policy/usage.ts';

/** What addresses and tokens are where EVM chains are served. */
export const words = createRuleWords({
  registry: createRegistry({ environment: 'production', enabled: ['eip155:1', 'eip155:56'] }),
});

export const now = new Date('2026-03-01T12:00:00.000Z');
export const recipient = '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF';

export function paymentOf({
  amount = '1',
  token = 'USDC',
  decimals = 6,
  toAddress = recipient,
}: {
  amount?: string;
  token?: string;
  decimals?: number;
  toAddress?: string;
} = {}): PolicyPayment {
  return { chain: 'eip155:1', token, decimals, amountMinor: parseAmount(amount, decimals) as bigint, toAddress };
}

export function contextOf({
  payment = paymentOf(),
  entries = [],
  windowsMs = [],
  now: instant = now,
}: {
  payment?: PolicyPayment;
  entries?: readonly UsageEntry[];
  windowsMs?: readonly number[];
  now?: Date;
} = {}): PolicyContext {
  return { payment, usage: createUsage({ windowsMs, entries }), now: instant };
}
