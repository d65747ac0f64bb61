import type { Patience } from '../../shared/domain/transaction.ts';

/** As configured by default: longer than any test. */
export const patience: Patience = { fundingWaitMs: 3_600_000, giveUpMs: 86_400_000 };

const clock = () => new Date();
/** What the activities of queue `wallet-chain` need besides the chain. */
export const patiently = { clock, firstTriedAt: clock, patience };
