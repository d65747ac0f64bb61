import type { Registry, Token } from '../shared/chain/registry.ts';
import { lockAgent, lockWallet } from '../shared/db/agents.ts';
import { cancelApprovals } from '../shared/db/approvals.ts';
import { bySystem, insertAudit } from '../shared/db/audit.ts';
import { putHolds } from '../shared/db/holds.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { insertRestoredSession, listSessionsAt, putRestoredStamp, takeFromBudget } from '../shared/db/restored.ts';
import { getX402Payment, insertX402Payment, lockX402Payment, type X402PaymentRow } from '../shared/db/x402-payments.ts';
import { lockSession } from '../shared/db/x402-sessions.ts';
import { formatAmount } from '../shared/domain/money.ts';
import type { AuthorizationPayload, TransferAuthorization } from '../shared/domain/receipt.ts';
import type { RestoreFinding } from '../shared/domain/restore.ts';
import { replacedSlotsMax } from '../shared/domain/slot.ts';
import { newId } from '../shared/ids.ts';
import { noteX402Payment } from '../shared/note-x402.ts';
import { reservePayment } from '../shared/reserve-payment.ts';
import { holdRest } from '../shared/x402-budget.ts';
import type { KeyRecord } from '../signer/client.ts';
import type { SignedPayment, SignedThing } from './list-signed.ts';
import { paymentHeader } from './payment-header.ts';
import { restoreWallet } from './restore-wallet.ts';

type SignedAuthorization = SignedThing & { readonly payload: AuthorizationPayload };

/** Where the payment went is not in any record. */
const unknownTarget = 'https://restored.invalid/';
/** What the schema allows for a window, in seconds. */
const window = { least: 30, most: 300 };

/**
 * Makes the database know what the signers signed for one x402 payment. The last authorisation counts: each was signed
 * only once the one before was over. It is taken to have been handed out, so that it counts until the chain shows that it
 * was used, or never will be. Repeating it changes nothing. In the caller's database transaction.
 */
export async function restoreX402(
  db: Queryable,
  {
    payment,
    keys,
    registry,
    now,
  }: { payment: SignedPayment; keys: readonly KeyRecord[]; registry: Registry; now: Date },
): Promise<RestoreFinding[]> {
  const things = payment.things as readonly SignedAuthorization[];
  const last = things.at(-1)!;
  const { nonce } = last.payload.authorization;
  const { walletId, findings } = await restoreWallet(db, { payment, keys });
  if (walletId === undefined) return findings;
  await lockAgent(db, { id: payment.agentId });
  const seen = await getX402Payment(db, { id: payment.id });
  if (seen) await lockSession(db, { id: seen.session_id });
  const known = await lockX402Payment(db, { id: payment.id });
  if (known && known.status !== 'pending')
    return isAccountedFor(known, last, now) ? findings : [...findings, endedButSigned(known, last)];
  if (known?.auth_nonce === nonce && last.signature === null) return findings;
  const row = known ?? (await recreate(db, { payment, last, walletId, registry, firstAt: new Date(things[0]!.atMs) }));
  if (!row) return [...findings, tokenUnknown(payment, last)];
  await cancelApprovals(db, { paymentId: row.id });
  await reservePayment(db, row, new Date(things[0]!.atMs));
  await putStamp(db, { row, things, last });
  await tell(db, { row, last });
  return [...findings, known ? completed(row) : recreated(row, last)];
}

/** Whether what was signed is what the database knows, or is over. */
function isAccountedFor(row: X402PaymentRow, { payload }: SignedAuthorization, now: Date): boolean {
  const { nonce, validBefore } = payload.authorization;
  return row.auth_nonce === nonce || row.former_nonces.includes(nonce) || validBefore * 1000 < now.getTime();
}

async function recreate(
  db: Queryable,
  {
    payment,
    last,
    walletId,
    registry,
    firstAt,
  }: {
    payment: SignedPayment;
    last: SignedAuthorization;
    walletId: string;
    registry: Registry;
    firstAt: Date;
  },
): Promise<X402PaymentRow | undefined> {
  const { id, accountId, agentId } = payment;
  const { from, to, value, domain } = last.payload.authorization;
  const { chain } = last.intent;
  const asset = domain.verifyingContract;
  const token = tokenOf(registry, { chain, asset });
  if (!token) return undefined;
  const minor = BigInt(value);
  const wanted = { walletId, chain, asset, minor };
  const place = { accountId, agentId, ...wanted, token: token.symbol, decimals: token.decimals };
  const sessionId = await sessionFor(db, { ...place, at: firstAt });
  await lockSession(db, { id: sessionId });
  await takeFromBudget(db, { id: sessionId, minor });
  const row = await insertX402Payment(db, {
    ...{ id, sessionId, accountId, agentId, walletId, chain, token: token.symbol, asset, decimals: token.decimals },
    ...{ amountMinor: minor, feeMinor: 0n, feeRate: '0', fromAddress: from, toAddress: to },
    ...{ targetUrl: unknownTarget, method: 'GET', x402Version: 2 as const },
    offer: { resource: null, accepted: {}, extensions: null },
    ...{ domainName: domain.name, domainVersion: domain.version },
    windowSeconds: windowOf(last),
  });
  await lockWallet(db, { id: walletId });
  await putHolds(db, { ownerId: id, walletId, chain, holds: [{ asset, amountMinor: minor }] });
  await holdRest(db, { sessionId });
  return row;
}

/** The only session that it can have been paid out of; one of its own where there is none, or several. */
async function sessionFor(db: Queryable, p: Omit<Parameters<typeof insertRestoredSession>[1], 'id'>): Promise<string> {
  const candidates = await listSessionsAt(db, p);
  if (candidates.length === 1) return candidates[0]!;
  const id = newId('sess');
  await insertRestoredSession(db, { id, ...p });
  return id;
}

function tokenOf(registry: Registry, { chain, asset }: { chain: string; asset: string }): Token | undefined {
  return registry.chain(chain)?.tokens.find((each) => each.asset.toLowerCase() === asset.toLowerCase());
}

function windowOf({ atMs, payload }: SignedAuthorization): number {
  const seconds = Math.ceil(payload.authorization.validBefore - atMs / 1000);
  return Math.min(window.most, Math.max(window.least, seconds));
}

async function putStamp(
  db: Queryable,
  { row, things, last }: { row: X402PaymentRow; things: readonly SignedAuthorization[]; last: SignedAuthorization },
): Promise<void> {
  const { nonce, validAfter, validBefore } = last.payload.authorization;
  const before = things.slice(0, -1).map(({ payload }) => payload.authorization.nonce);
  await putRestoredStamp(db, {
    ...{ id: row.id, decisionId: last.decisionId, nonce, validAfter, validBefore },
    formerNonces: [...new Set([...row.former_nonces, ...before])].slice(-replacedSlotsMax),
    isSigned: last.signature !== null,
    paymentSignature: headerOf(row, last.payload.authorization, last.signature),
  });
}

/** Whoever asks for the payment again gets the same header; of one whose target is lost there is none. */
function headerOf(
  row: X402PaymentRow,
  authorization: TransferAuthorization,
  signature: `0x${string}` | null,
): string | null {
  if (signature === null || row.target_url === unknownTarget) return null;
  return paymentHeader(row, { authorization, signature });
}

async function tell(db: Queryable, { row, last }: { row: X402PaymentRow; last: SignedAuthorization }): Promise<void> {
  if (last.signature === null) return;
  const { nonce, validBefore } = last.payload.authorization;
  await insertAudit(db, {
    ...{ accountId: row.account_id, agentId: row.agent_id, acting: bySystem, result: 'success' },
    ...{ action: 'x402_payment.signed', resourceType: 'x402_payment', resourceId: row.id },
    metadata: { session_id: row.session_id, nonce, valid_before: validBefore },
  });
  await noteX402Payment(db, { id: row.id, type: 'x402.payment.completed' });
}

const inWords = (row: X402PaymentRow) =>
  `${formatAmount(BigInt(row.amount_minor), row.decimals)} ${row.token} on ${row.chain} to ${row.to_address}`;

function recreated(row: X402PaymentRow, { atMs }: SignedAuthorization): RestoreFinding {
  const at = new Date(atMs).toISOString();
  const detail = `${inWords(row)} for agent ${row.agent_id} was signed at ${at} for an x402 payment that was lost with its target; it counts in session ${row.session_id}. A client that asks for the same resource again pays again.`;
  return { what: 'payment_recreated', id: row.id, detail };
}

function completed(row: X402PaymentRow): RestoreFinding {
  const detail = `${inWords(row)}: the database lacked its signed authorisation, which may have been handed out.`;
  return { what: 'payment_completed', id: row.id, detail };
}

function endedButSigned(row: X402PaymentRow, { payload }: SignedAuthorization): RestoreFinding {
  const until = new Date(payload.authorization.validBefore * 1000).toISOString();
  const detail = `${inWords(row)} is ${row.status} here, and the signers signed an authorisation for it that is good until ${until}. Wait for that time, then reconcile again.`;
  return { what: 'ended_but_signed', id: row.id, detail };
}

function tokenUnknown({ id }: SignedPayment, { intent }: SignedAuthorization): RestoreFinding {
  const detail = `x402 payment ${id} moves ${intent.amount_minor} minor units of ${intent.asset} on ${intent.chain}, and no process here knows that token (PURSER_CHAINS, PURSER_EXTRA_TOKENS): name it, and reconcile again.`;
  return { what: 'token_unknown', id, detail };
}
