import type { Hex } from 'viem';
import type { PolicyReceipt, SignPayload } from '../shared/domain/receipt.ts';
import type { SignerPeer, SignerTransport } from './call.ts';
import { chainOf, digestOf } from './digest/payload.ts';
import type { KeyRecord, PaymentRecords, PaymentsPage } from './list-records.ts';
import { newSession } from './new-session.ts';
import { judgeSignature } from './recorded-signature.ts';

/** One request. */
const TIMEOUT_MS = 20_000;
/** A signer that goes on for longer than this tells tales. */
const PAGES_MAX = 100_000;

/** A payment that any signer has signed for, and when the signers first and last did, as far back as was asked for. */
export interface ListedPayment {
  transactionId: string;
  firstAtMs: number;
  lastAtMs: number;
}

/** One thing that was signed for a payment, as all signers together know it. JSON-safe. */
export interface KnownRecord {
  atMs: number;
  receipt: PolicyReceipt;
  payload: SignPayload;
  /** r | s | v, as `Signature` has it; null where no signer saw what came out: then nobody has it. */
  signature: Hex | null;
}
export interface KnownPayment {
  transactionId: string;
  /** Oldest first; one for each digest. */
  records: KnownRecord[];
}

interface Reach {
  /** All three: what two of them signed, each of both has recorded. */
  peers: readonly SignerPeer[];
}

/**
 * Which payments were signed for since an instant, by the log of every signer.
 * @throws RefusedBySigner, NoAnswer when any signer does not tell
 */
export async function coordinateListPayments(
  transport: SignerTransport,
  { peers, sinceMs }: Reach & { sinceMs: number },
): Promise<ListedPayment[]> {
  const found = new Map<string, ListedPayment>();
  for (const peer of peers) {
    let before: number | null | undefined;
    for (let page = 1; before !== null; page += 1) {
      if (page > PAGES_MAX) throw new Error(`signer ${peer.party} tells of more signatures than there can be`);
      const told: PaymentsPage = await transport.call<PaymentsPage>(peer, {
        path: '/v1/records/payments',
        session: newSession(),
        body: before === undefined ? {} : { before },
        timeoutMs: TIMEOUT_MS,
      });
      for (const { transactionId, atMs } of told.payments) {
        if (atMs < sinceMs) continue;
        const { firstAtMs = atMs, lastAtMs = atMs } = found.get(transactionId) ?? {};
        const times = { firstAtMs: Math.min(firstAtMs, atMs), lastAtMs: Math.max(lastAtMs, atMs) };
        found.set(transactionId, { transactionId, ...times });
      }
      const oldest = told.payments.at(-1);
      before = oldest && oldest.atMs < sinceMs ? null : told.next;
    }
  }
  return [...found.values()];
}

/**
 * Everything that was ever signed for some payments, joined over the signers. A signature counts only where it is the
 * wallet's over the digest that is computed here.
 * @throws RefusedBySigner, NoAnswer when any signer does not tell
 */
export async function coordinateReadPayments(
  transport: SignerTransport,
  { peers, transactionIds }: Reach & { transactionIds: readonly string[] },
): Promise<KnownPayment[]> {
  const known = new Map<string, Map<string, KnownRecord>>(transactionIds.map((id) => [id, new Map()]));
  for (const peer of peers) {
    let left = [...transactionIds];
    while (left.length > 0) {
      const told: PaymentRecords = await transport.call<PaymentRecords>(peer, {
        path: '/v1/records/payments/read',
        session: newSession(),
        body: { transactionIds: left },
        timeoutMs: TIMEOUT_MS,
      });
      if (told.left.length >= left.length) throw new Error(`signer ${peer.party} tells nothing of ${left[0]}`);
      for (const { transactionId, records } of told.payments) {
        const joined = known.get(transactionId);
        if (!joined) throw new Error(`signer ${peer.party} tells of ${transactionId}, which it was not asked for`);
        for (const record of records) await join(joined, record);
      }
      left = told.left;
    }
  }
  return [...known].map(([transactionId, joined]) => ({
    transactionId,
    records: [...joined.values()].toSorted((a, b) => a.atMs - b.atMs),
  }));
}

async function join(
  joined: Map<string, KnownRecord>,
  told: PaymentRecords['payments'][number]['records'][number],
): Promise<void> {
  const { receipt, payload } = told;
  const digest = digestOf(payload, receipt.wallet.address);
  const before = joined.get(digest);
  const signature = before?.signature ?? (await verified(told, digest));
  joined.set(digest, { receipt, payload, atMs: Math.min(told.atMs, before?.atMs ?? told.atMs), signature });
}

async function verified(
  { signature, receipt, payload }: { signature: Hex | null; receipt: PolicyReceipt; payload: SignPayload },
  digest: Hex,
): Promise<Hex | null> {
  if (signature === null) return null;
  const { address } = receipt.wallet;
  const judged = await judgeSignature({ signature, digest, address, chain: chainOf(payload) });
  return 'fault' in judged ? null : judged.signature;
}

/**
 * What addresses of keys' wallets are derived from; of keys that are in use with all three signers, which agree.
 * @throws RefusedBySigner, NoAnswer when any signer does not tell
 */
export async function coordinateReadKeys(
  transport: SignerTransport,
  { peers, keyIds }: Reach & { keyIds: readonly string[] },
): Promise<KeyRecord[]> {
  const told = await Promise.all(
    peers.map((peer) =>
      transport.call<{ keys: KeyRecord[] }>(peer, {
        path: '/v1/records/keys/read',
        session: newSession(),
        body: { keyIds },
        timeoutMs: TIMEOUT_MS,
      }),
    ),
  );
  const [first, ...others] = told.map(({ keys }) => new Map(keys.map((key) => [key.keyId, key])));
  return [...first!.values()].filter((key) =>
    others.every((each) => {
      const same = each.get(key.keyId);
      return same?.publicKey === key.publicKey && same.chainCode === key.chainCode;
    }),
  );
}
