import type { TransactionPayload } from '../../domain/receipt.ts';
import { hearAll } from '../endpoints/agreement.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';
import { RpcUnavailable } from '../errors.ts';
import { readBlock, readPlace } from './answers.ts';
import { type TronEndpoints, tronCall } from './node.ts';
import { transactionId } from './raw-data.ts';
import { readSigned } from './read-signed.ts';

/** What stands behind one address may be several nodes, of which the next one asked is behind the last: by less than this. */
const nodesApartMs = 30_000;

/** A transaction by its id, and until when a block may take it. */
export interface Expiring {
  readonly hash: string;
  /** Unix milliseconds. */
  readonly expirationMs: number;
}

/** @throws TypeError for a payload of another family, RangeError for bytes that are none of ours */
export function expiringOf(p: { raw: string } | { payload: TransactionPayload }): Expiring {
  if ('raw' in p) {
    const { hash, transaction } = readSigned(p.raw);
    return { hash, expirationMs: transaction.expirationMs };
  }
  const { payload } = p;
  if (payload.kind !== 'tron-transaction') throw new TypeError(`A ${payload.kind} is none of Tron.`);
  return { hash: transactionId(payload.transaction), expirationMs: payload.transaction.expirationMs };
}

/**
 * Until when a transaction that has expired was proven to be in no block, by more than half of all configured
 * endpoints: each has a solidified block past the expiration, and after it was asked for that has the transaction
 * nowhere. A block whose parent is past the expiration cannot take it (java-tron, `validateCommon`).
 * @returns Unix milliseconds, not before its expiration; undefined while that is not proven
 * @throws RpcUnavailable
 */
export async function absentUntil(
  endpoints: TronEndpoints,
  { hash, expirationMs }: Expiring,
): Promise<number | undefined> {
  const late = new Map<Endpoint, number>();
  for (const { endpoint, answers } of await hearAll(endpoints, [tronCall('walletsolidity', 'getnowblock')])) {
    const provenMs = (readBlock(answers[0])?.timestampMs ?? 0) - nodesApartMs;
    if (provenMs >= expirationMs) late.set(endpoint, provenMs);
  }
  if (late.size <= endpoints.size / 2) return undefined;
  // A node that keeps no history of results (java-tron, `storage.transHistory.switch`) has receipts of nothing, but it has
  // the transactions.
  const heard = await hearAll(
    endpoints,
    (['walletsolidity', 'wallet'] as const).flatMap((api) =>
      ['gettransactioninfobyid', 'gettransactionbyid'].map((method) => tronCall(api, method, { value: hash })),
    ),
  );
  const proofs = heard.flatMap(({ endpoint, answers }) => {
    const provenMs = late.get(endpoint);
    return provenMs !== undefined && answers.every((each) => each === null) ? [provenMs] : [];
  });
  return proofs.length > endpoints.size / 2 ? Math.min(...proofs) : undefined;
}

/**
 * Makes sure that what a payment was to be before is over.
 * @returns as `absentUntil`
 * @throws RpcUnavailable while a block may still take it, or has
 */
export async function formerAbsentAt(endpoints: TronEndpoints, former: TransactionPayload): Promise<number> {
  const expiring = expiringOf({ payload: former });
  const provenMs = await absentUntil(endpoints, expiring);
  if (provenMs !== undefined) return provenMs;
  const isThere = (await hearAll(endpoints, [tronCall('wallet', 'gettransactioninfobyid', { value: expiring.hash })]))
    .map(({ answers }) => readPlace(answers[0]))
    .find((place) => place !== undefined);
  const until = new Date(expiring.expirationMs + nodesApartMs).toISOString();
  throw new RpcUnavailable(
    isThere
      ? `Transaction ${expiring.hash}, which this payment was to be before, is in block ${isThere.number}: it must not be paid again.`
      : `Transaction ${expiring.hash}, which this payment was to be before, may still be taken: another one is built once a solidified block is later than ${until}.`,
  );
}
