import { familyOf, familyOfPayload } from '../shared/chain/families.ts';
import type { Coin } from '../shared/chain/family.ts';
import type { Registry, Token } from '../shared/chain/registry.ts';
import { lockAgent, lockWallet } from '../shared/db/agents.ts';
import { cancelApprovals } from '../shared/db/approvals.ts';
import { type AttemptRow, findAttempts } from '../shared/db/attempts.ts';
import { raiseHold } from '../shared/db/holds.ts';
import type { Queryable } from '../shared/db/pool.ts';
import {
  giveUpPlace,
  insertRestoredTransaction,
  listHolders,
  noteRestoredDecision,
  putRestoredSlot,
} from '../shared/db/restored.ts';
import { findSlot, type SlotRow } from '../shared/db/slots.ts';
import { lockTransaction, markSigning, type TransactionRow } from '../shared/db/transactions.ts';
import { formatAmount } from '../shared/domain/money.ts';
import type { TransactionPayload } from '../shared/domain/receipt.ts';
import type { RestoreFinding } from '../shared/domain/restore.ts';
import { replacedSlotsMax } from '../shared/domain/slot.ts';
import { reservePayment } from '../shared/reserve-payment.ts';
import type { KeyRecord } from '../signer/client.ts';
import type { SignedPayment, SignedThing } from './list-signed.ts';
import { restoreWallet } from './restore-wallet.ts';
import { storeSignedIn } from './store-signed.ts';

/** What people read of a payment that was lost: what its client wrote there is lost as well. */
const restoredMemo = 'Restored from the records of the signers.';
const cancelledMeanwhile = 'It was cancelled, or could not be made, before the database was restored.';

/** A transfer that was signed, or begun to be. */
type SignedTransfer = SignedThing & { readonly payload: TransactionPayload };

/**
 * Makes the database know what the signers signed for one transfer: its row, its place, every signed transaction, what it
 * takes from limits and wallet. What the database knows already stays; repeating it changes nothing. In the caller's
 * database transaction.
 */
export async function restoreTransfer(
  db: Queryable,
  {
    payment,
    keys,
    registry,
    now,
  }: { payment: SignedPayment; keys: readonly KeyRecord[]; registry: Registry; now: Date },
): Promise<RestoreFinding[]> {
  const things = payment.things as readonly SignedTransfer[];
  const { walletId, findings } = await restoreWallet(db, { payment, keys });
  if (walletId === undefined) return findings;
  await lockAgent(db, { id: payment.agentId });
  const known = await lockTransaction(db, { id: payment.id });
  const token = known ? undefined : tokenOf(registry, things);
  if (!known && !token) return [...findings, unmade(payment, things)];
  const row = known ?? (await recreate(db, { payment, things, walletId, token: token! }));
  const attempts = await findAttempts(db, { transactionId: row.id });
  const slot = await findSlot(db, { transactionId: row.id });
  const missing = missingOf(things, { slot, attempts });
  if (missing.length === 0) return findings;
  if (row.status !== 'pending')
    return canStillBeTaken(missing, { slot, attempts, now }) ? [...findings, endedButSigned(row, missing)] : findings;
  await lockWallet(db, { id: walletId });
  const place = await takePlace(db, { row, things, walletId, slot, attempts });
  findings.push(...place.findings);
  if (!place.isTaken) return findings;
  await noteRestoredDecision(db, { id: row.id, decisionId: things[0]!.decisionId });
  await cancelApprovals(db, { paymentId: row.id });
  await reservePayment(db, row, new Date(things[0]!.atMs));
  await holdAll(db, { row, things, walletId });
  for (const [index, { signed, purpose }] of things.entries())
    if (signed && !attempts.some(({ hash }) => hash === signed.hash))
      await storeSignedIn(db, { row, ...signed, purpose, version: place.firstVersion + index });
  return [...findings, known ? completed(row, missing) : recreated(row, things)];
}

/** Versions that the database does not have: one is known by its bytes' hash, or as what the place is to be signed for. */
function missingOf(
  things: readonly SignedTransfer[],
  { slot, attempts }: { slot: SlotRow | undefined; attempts: readonly AttemptRow[] },
): SignedTransfer[] {
  return things.filter((thing) => {
    if (thing.signed)
      return !attempts.some(({ hash }) => hash === thing.signed!.hash) && !isStored(thing, { slot, attempts });
    return !slot || (!isSame(slot.payload, thing.payload) && attempts.length === 0);
  });
}

/** Whether another signature over the very same is stored: the signers may have made two, and either is as good. */
function isStored(
  thing: SignedTransfer,
  { slot, attempts }: { slot: SlotRow | undefined; attempts: readonly AttemptRow[] },
): boolean {
  if (!slot || !isSame(slot.payload, thing.payload)) return false;
  return attempts.some(({ version }) => version === slot.version);
}

/**
 * Whether somebody may be paid by what is missing: not by what pays nobody, not where the payment's place was used up for
 * good, and not once it has expired.
 */
function canStillBeTaken(
  missing: readonly SignedTransfer[],
  { slot, attempts, now }: { slot: SlotRow | undefined; attempts: readonly AttemptRow[]; now: Date },
): boolean {
  if (attempts.some(({ final_at }) => final_at !== null)) return false;
  const isUsedUp = ({ payload }: SignedTransfer) =>
    slot !== undefined &&
    slot.closed_at !== null &&
    nonceOf(payload) !== null &&
    String(nonceOf(payload)) === slot.nonce;
  return missing.some(
    (thing) =>
      thing.purpose === 'payment' && !isUsedUp(thing) && !familyOfPayload(thing.payload).isOutdated(thing.payload, now),
  );
}

/** Both are plain data; jsonb does not keep the order of members. */
function isSame(a: TransactionPayload, b: TransactionPayload): boolean {
  return sorted(a) === sorted(b);
}

const sorted = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) =>
    each !== null && typeof each === 'object' && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );

function tokenOf(registry: Registry, things: readonly SignedTransfer[]): Token | undefined {
  const intent = paidBy(things);
  if (!intent) return undefined;
  const asset = intent.asset.toLowerCase();
  return registry.chain(intent.chain)?.tokens.find((each) => each.asset.toLowerCase() === asset);
}

/** What the payment is; undefined where only something that pays nobody was signed. */
const paidBy = (things: readonly SignedTransfer[]) => things.find(({ purpose }) => purpose === 'payment')?.intent;

function unmade({ id, wallet }: SignedPayment, things: readonly SignedTransfer[]): RestoreFinding {
  const intent = paidBy(things);
  if (intent) {
    const detail = `Payment ${id} moves ${intent.amount_minor} minor units of ${intent.asset} on ${intent.chain} to ${intent.to}, and no process here knows that token (PURSER_CHAINS, PURSER_EXTRA_TOKENS): name it, and reconcile again.`;
    return { what: 'token_unknown', id, detail };
  }
  const { chain } = things[0]!.intent;
  const detail = `Payment ${id} was never signed; only its place was used up, by a transaction that pays nobody (wallet ${wallet.address} on ${chain}).`;
  return { what: 'place_used_up', id, detail };
}

function recreate(
  db: Queryable,
  {
    payment,
    things,
    walletId,
    token,
  }: { payment: SignedPayment; things: readonly SignedTransfer[]; walletId: string; token: Token },
): Promise<TransactionRow> {
  const { id, accountId, agentId, wallet } = payment;
  const intent = paidBy(things)!;
  return insertRestoredTransaction(db, {
    ...{ id, accountId, agentId, walletId, chain: intent.chain, memo: restoredMemo },
    ...{ token: token.symbol, asset: token.asset, decimals: token.decimals },
    amountMinor: BigInt(intent.amount_minor),
    fromAddress: wallet.address,
    toAddress: intent.to,
    decisionId: things[0]!.decisionId,
    createdAt: new Date(things[0]!.atMs),
  });
}

interface Place {
  readonly isTaken: boolean;
  /** Of the oldest thing that was signed. */
  readonly firstVersion: number;
  readonly findings: readonly RestoreFinding[];
}

/** Gives the payment the place that it was signed for. Who has it without a signature goes back to be prepared anew. */
async function takePlace(
  db: Queryable,
  {
    row,
    things,
    walletId,
    slot,
    attempts,
  }: {
    row: TransactionRow;
    things: readonly SignedTransfer[];
    walletId: string;
    slot: SlotRow | undefined;
    attempts: readonly AttemptRow[];
  },
): Promise<Place> {
  const last = things.at(-1)!;
  const nonce = nonceOf(last.payload);
  const coins = things.flatMap(({ payload }) => coinsOf(payload));
  const { id, chain } = row;
  const holders = await listHolders(db, { walletId, chain, nonce, coins, exceptId: id });
  const findings: RestoreFinding[] = [];
  for (const holder of holders) {
    if (holder.is_signed) {
      const detail = `Payments ${id} and ${holder.id} have both been signed for ${nonce === null ? 'the same coins' : `nonce ${nonce}`} of wallet ${row.from_address} on ${chain}: the signers never do that.`;
      return { isTaken: false, firstVersion: 0, findings: [{ what: 'places_disagree', id, detail }] };
    }
    await giveUpPlace(db, { id: holder.id });
    const detail = `Payment ${holder.id} had a place that ${id} was signed for meanwhile; it gets another one.`;
    findings.push({ what: 'place_given_up', id: holder.id, detail });
  }
  const isElsewhere =
    slot !== undefined && attempts.length === 0 && slot.nonce !== (nonce === null ? null : String(nonce));
  if (isElsewhere) await giveUpPlace(db, { id });
  const firstVersion = firstVersionOf(things, { slot: isElsewhere ? undefined : slot, attempts });
  const lastVersion = firstVersion + things.length - 1;
  if (isElsewhere || !slot || lastVersion >= slot.version)
    await putRestoredSlot(db, {
      ...{ walletId, chain, nonce, coins, transactionId: id, payload: last.payload },
      purpose: last.purpose === 'payment' ? 'payment' : 'cancel',
      version: lastVersion,
      formerSlots: last.replaces.slice(-replacedSlotsMax),
      endMessage: last.purpose === 'payment' ? null : cancelledMeanwhile,
    });
  if (!slot || isElsewhere) await markSigning(db, { id, nonce });
  return { isTaken: true, firstVersion, findings };
}

/** The database counts payloads from one; those that it knows keep their numbers. */
function firstVersionOf(
  things: readonly SignedTransfer[],
  { slot, attempts }: { slot: SlotRow | undefined; attempts: readonly AttemptRow[] },
): number {
  for (const [index, { signed, payload }] of things.entries()) {
    const stored = signed && attempts.find(({ hash }) => hash === signed.hash);
    if (stored) return stored.version - index;
    if (slot && isSame(slot.payload, payload)) return slot.version - index;
  }
  return Math.max(1, ...attempts.map(({ version }) => version + 1));
}

function nonceOf(payload: TransactionPayload): number | null {
  return payload.kind === 'evm-transaction' ? payload.transaction.nonce : null;
}

function coinsOf(payload: TransactionPayload): Coin[] {
  return payload.kind === 'bitcoin-transaction'
    ? payload.transaction.inputs.map(({ txid, vout }) => ({ txid, vout }))
    : [];
}

/** As much as any of the signed transactions may take. */
async function holdAll(
  db: Queryable,
  { row, things, walletId }: { row: TransactionRow; things: readonly SignedTransfer[]; walletId: string },
): Promise<void> {
  const fees = things.map(({ payload }) => familyOfPayload(payload).maxFeeOf(payload));
  const fee = fees.toSorted((a, b) => (a < b ? 1 : -1))[0]!;
  const amount = BigInt(row.amount_minor);
  const holds =
    row.asset === 'native'
      ? [{ asset: 'native', amountMinor: amount + fee }]
      : [
          { asset: row.asset, amountMinor: amount },
          { asset: 'native', amountMinor: fee },
        ];
  for (const hold of holds)
    if (hold.amountMinor > 0n) await raiseHold(db, { ownerId: row.id, walletId, chain: row.chain, ...hold });
}

const inWords = (row: TransactionRow) =>
  `${formatAmount(BigInt(row.amount_minor), row.decimals)} ${row.token} on ${row.chain} to ${row.to_address}`;

function recreated(row: TransactionRow, things: readonly SignedTransfer[]): RestoreFinding {
  const at = new Date(things[0]!.atMs).toISOString();
  const hashes = things.flatMap(({ signed }) => (signed ? [signed.hash] : []));
  const how = hashes.length === 0 ? 'was begun to be signed' : `was signed (${hashes.join(', ')})`;
  const detail = `${inWords(row)} for agent ${row.agent_id} ${how} at ${at}. Its row was lost with its idempotency key: a client that repeats the request pays a second time.`;
  return { what: 'payment_recreated', id: row.id, detail };
}

function completed(row: TransactionRow, missing: readonly SignedTransfer[]): RestoreFinding {
  const hashes = missing.flatMap(({ signed }) => (signed ? [signed.hash] : []));
  const what = hashes.length === 0 ? 'its place' : `its signed transactions ${hashes.join(', ')}`;
  return { what: 'payment_completed', id: row.id, detail: `${inWords(row)}: the database lacked ${what}.` };
}

function endedButSigned(row: TransactionRow, missing: readonly SignedTransfer[]): RestoreFinding {
  const hashes = missing.flatMap(({ signed }) => (signed ? [signed.hash] : []));
  const signed =
    hashes.length === 0 ? 'the signers began to sign it' : `the signers signed ${hashes.join(', ')} for it`;
  const detail = `${inWords(row)} is ${row.status} here, and ${signed}. Look at the chain (${familyOf(row.chain).name}) whether it was paid.`;
  return { what: 'ended_but_signed', id: row.id, detail };
}
