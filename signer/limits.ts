import { z } from 'zod';
import type { SignPayload } from '../shared/domain/receipt.ts';
import { walletName } from './address.ts';
import { type Charge, chargesOf, slotHash } from './charges.ts';
import type { SignerContext } from './context.ts';
import type { Hold } from './holds.ts';
import { ALL_WALLETS, LIMITS_DOCUMENT_MAX } from './limits-document.ts';
import type { Party } from './parties.ts';
import { Refusal } from './refusal.ts';
import { DAY_MS, judgeDay, type Level } from './rolling-day.ts';
import { limitsInForce, takeLimits } from './set-limits.ts';
import type { Spending } from './store/spending.ts';

/** Levels that one message tells; what there is above is told as one sum, and in full the next times. */
const TOLD_MAX = 4_000;

const minor = z.string().regex(/^(0|[1-9][0-9]{0,79})$/);
/** An initiator gives its part away before the joiner completes the signature: within the life of the session, and a little. */
const COMPLETION_MS_MAX = 40_000;

const asset = z.string().max(100);
const level = z.strictObject({ slot: z.string().max(64), asset, amount: minor });
const newsSchema = z.strictObject({
  documents: z.array(z.string().max(LIMITS_DOCUMENT_MAX)).max(2),
  spent: z.array(level.extend({ ageMs: z.int().min(-COMPLETION_MS_MAX) })).max(TOLD_MAX),
  pending: z.array(level).max(TOLD_MAX),
});
/** What one of a pair tells the other: limits, what it alone knows was signed away, and what it is signing now. */
export type LimitNews = z.infer<typeof newsSchema>;

/** One signature's place in the limits of its wallet, at one of the two that make it. */
export interface LimitHold {
  /** What the other must hear, after this hold was taken. */
  tell(): LimitNews;
  /**
   * Keeps what the other told, takes newer limits from it, and judges again with all of it. Durable on return.
   * @throws Refusal `limit_exceeded`, `busy`, `limits_differ`, `bad_message`
   */
  hear(news: unknown): Promise<void>;
  /** Counts it as signed away; within the transaction that stores what is signed. */
  settle(): void;
  /** What was not settled counts no more. */
  close(): void;
}

interface Asked extends Hold {
  isFee: Charge['isFee'];
}

const bitOf = (party: Party) => 1 << (party - 1);

/**
 * Takes a place in the limits that the account's owner set, where there are any. Both of a pair do, before they tell each
 * other: of signatures that are made by several pairs at once, the one whose joiner spoke last is judged by its initiator
 * with all the others in view, so that they never pass together.
 * @throws Refusal `limit_exceeded`, whose message is for the owner; `busy` where only signatures under way are in the way
 */
export function holdLimit(
  context: SignerContext,
  p: {
    session: string;
    keyId: string;
    wallet: string;
    slot: string;
    payload: SignPayload;
    role: 'initiator' | 'joiner';
    counterparty: Party;
  },
): LimitHold {
  const { session, keyId, counterparty } = p;
  const wallet = walletName(p.wallet);
  const slot = slotHash(p.slot);
  const atMs = context.now().getTime();
  const asked: Asked[] = chargesOf(p.payload, p.wallet).map((charge) => ({ ...charge, wallet, slot, atMs }));
  let told: Spending[] = [];
  context.holds.put(session, asked);
  const close = () => context.holds.release(session);
  const judge = (heard: readonly Pending[]) => judgeAll(context, { session, keyId, wallet, asked, heard });
  try {
    judge([]);
  } catch (error) {
    close();
    throw error;
  }
  return {
    tell() {
      const news = tellNews(context, { session, keyId, wallet, asked, counterparty });
      told = news.told;
      return news.news;
    },
    async hear(given) {
      const news = newsSchema.safeParse(given);
      if (!news.success)
        throw new Refusal('bad_message', `signer ${counterparty} told no limits`, { culprit: counterparty });
      await takeFromPeer(context, { ...p, wallet, documents: news.data.documents });
      keep(context, { keyId, wallet, counterparty, spent: news.data.spent });
      judge(news.data.pending.map(({ amount, ...rest }) => ({ ...rest, amountMinor: BigInt(amount) })));
    },
    settle() {
      const settledAtMs = context.now().getTime() + (p.role === 'initiator' ? COMPLETION_MS_MAX : 0);
      const both = bitOf(context.party) | bitOf(counterparty);
      for (const { asset, amountMinor } of asked) {
        if (amountMinor === 0n) continue;
        context.store.putSpending({ keyId, slot, wallet, asset, amountMinor, knownTo: both, atMs: settledAtMs });
      }
      for (const row of told) context.store.putSpending({ ...row, knownTo: bitOf(counterparty) });
    },
    close,
  };
}

/** Of another signature, at the other signer. */
interface Pending {
  slot: string;
  asset: string;
  amountMinor: bigint;
}

interface Question {
  session: string;
  keyId: string;
  wallet: string;
  asked: readonly Asked[];
}

function judgeAll(context: SignerContext, p: Question & { heard: readonly Pending[] }): void {
  const { keyId, wallet } = p;
  const inForce = limitsInForce(context, { keyId, wallet });
  if (!inForce) return;
  const nowMs = context.now().getTime();
  const by = `the limits that the account’s owner set inside the signers (version ${inForce.version})`;
  for (const charge of p.asked) {
    const { asset, amountMinor } = charge;
    const limit = inForce.limits.find((each) => each.asset === asset);
    if (!limit) {
      if (charge.isFee) continue;
      throw new Refusal('limit_exceeded', `wallet ${wallet} may not pay in ${asset}: ${by} do not list it`);
    }
    if (limit.payment_minor !== null && amountMinor > BigInt(limit.payment_minor)) {
      throw new Refusal(
        'limit_exceeded',
        `wallet ${wallet} may pay ${limit.payment_minor} minor units of ${asset} at once by ${by}; this takes up to ${amountMinor}`,
      );
    }
    if (limit.day_minor === null) continue;
    const pending: Level[] = [
      ...context.holds.others(p.session, charge),
      ...p.heard.filter((h) => h.asset === asset),
    ].map((each) => ({ ...each, atMs: nowMs }));
    const known = knownOf(context, charge, nowMs);
    const dayMinor = BigInt(limit.day_minor);
    const { verdict, spentMinor } = judgeDay({ known, pending, asked: { ...charge, atMs: nowMs }, dayMinor });
    if (verdict === 'within') continue;
    if (verdict === 'contended') {
      throw new Refusal('busy', `signatures under way may use up what wallet ${wallet} may pay in a day; ask again`);
    }
    throw new Refusal(
      'limit_exceeded',
      `wallet ${wallet} may pay ${dayMinor} minor units of ${asset} in 24 hours by ${by}; ${spentMinor} were signed away in the last 24 hours, and this takes up to ${amountMinor}`,
    );
  }
}

/** What counts in the day, and everything about the slot itself. */
function knownOf(context: SignerContext, { wallet, asset, slot }: Asked, nowMs: number): Spending[] {
  return context.store.spendingSince({ wallet, asset, slot, sinceMs: nowMs - DAY_MS });
}

function tellNews(
  context: SignerContext,
  p: Question & { counterparty: Party },
): { news: LimitNews; told: Spending[] } {
  const { keyId, wallet } = p;
  const news: LimitNews = { documents: documentsOf(context, p), spent: [], pending: [] };
  if (!limitsInForce(context, { keyId, wallet })) return { news, told: [] };
  const nowMs = context.now().getTime();
  const untold: Spending[] = [];
  for (const charge of p.asked) {
    const known = knownOf(context, charge, nowMs).filter(({ knownTo }) => !(knownTo & bitOf(p.counterparty)));
    untold.push(...known);
    const others = context.holds.others(p.session, charge);
    news.pending.push(...others.map(({ slot, asset, amountMinor }) => ({ slot, asset, amount: `${amountMinor}` })));
  }
  const told = untold.slice(0, TOLD_MAX);
  news.spent = told.map(({ slot, asset, amountMinor, atMs }) => {
    return { slot, asset, amount: `${amountMinor}`, ageMs: Math.max(-COMPLETION_MS_MAX, nowMs - atMs) };
  });
  for (const asset of new Set(untold.slice(TOLD_MAX).map((row) => row.asset))) {
    const rest = untold.slice(TOLD_MAX).filter((row) => row.asset === asset);
    news.pending.push({ slot: 'rest', asset, amount: `${rest.reduce((sum, row) => sum + row.amountMinor, 0n)}` });
  }
  return { news, told };
}

/** Times are told as ages, so that it does not matter by how much clocks differ. */
function keep(
  context: SignerContext,
  p: { keyId: string; wallet: string; counterparty: Party; spent: LimitNews['spent'] },
): void {
  const { keyId, wallet, counterparty, spent } = p;
  if (spent.length === 0) return;
  const nowMs = context.now().getTime();
  const knownTo = bitOf(context.party) | bitOf(counterparty);
  context.store.transaction(() => {
    for (const { slot, asset, amount, ageMs } of spent) {
      context.store.putSpending({
        keyId,
        slot,
        wallet,
        asset,
        amountMinor: BigInt(amount),
        knownTo,
        atMs: nowMs - ageMs,
      });
    }
  });
}

/**
 * A signer that was away learns of newer limits from the next one that it signs with. The initiator, which hears last,
 * insists that both have the same now; a joiner's are told to it.
 * @throws Refusal `limits_differ`
 */
async function takeFromPeer(
  context: SignerContext,
  p: { keyId: string; wallet: string; role: 'initiator' | 'joiner'; counterparty: Party; documents: readonly string[] },
): Promise<void> {
  const differ = (why: string): never => {
    throw new Refusal(
      'limits_differ',
      `signers ${context.party} and ${p.counterparty} have not the same limits: ${why}`,
    );
  };
  for (const document of p.documents) {
    await takeLimits(context, { keyId: p.keyId, document }).catch((error: unknown) => {
      if (!(error instanceof Refusal)) throw error;
      if (error.code !== 'limits_outdated') differ(error.message);
    });
  }
  const missing = documentsOf(context, p).filter((document) => !p.documents.includes(document));
  if (p.role === 'initiator' && missing.length > 0) differ(`signer ${p.counterparty} has older ones`);
}

/** The documents that bear on a wallet. */
function documentsOf(context: SignerContext, { keyId, wallet }: { keyId: string; wallet: string }): string[] {
  return [wallet, ALL_WALLETS].flatMap((of) => context.store.getLimits({ keyId, wallet: of })?.document ?? []);
}
