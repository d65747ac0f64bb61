import { RefusedBySigner, type SignerTransport } from '../../signer/call.ts';
import { coordinateKeygen } from '../../signer/coordinate-keygen.ts';
import { coordinateSign, type Signature, type SignRequest } from '../../signer/coordinate-sign.ts';
import { PARTIES, type Party } from '../../signer/parties.ts';
import type { HostedSigners } from './hosted-signers.ts';
import { nativeTransfer, signRequestFor, type TestKey } from './payments.ts';

const CALL_TIMEOUT_MS = 10_000;

/** How a run ended, and which one it was. */
export type Outcome = { session: string } & ({ signature: Signature } | { error: unknown });

/** Signatures by a coordinator that keeps to the rules, each of a payment that no other run makes. */
export interface HostedRuns {
  key: TestKey;
  freshRequest(): Promise<SignRequest>;
  sign(pair: readonly [Party, Party], request: SignRequest, through?: SignerTransport): Promise<Outcome>;
  /** What a signer says to one more message of a run. */
  poke(party: Party, session: string): Promise<object>;
  /** Counts what came of a case; {@link printTable} prints it. */
  note(row: string): void;
  printTable(): void;
}

/** Makes a key, by way of `transport`. */
export async function startRuns(signers: HostedSigners, transport: SignerTransport): Promise<HostedRuns> {
  const table = new Map<string, number>();
  let payments = 0;
  const key = await coordinateKeygen(transport, {
    peers: PARTIES.map(signers.peer),
    keyId: 'ckey_main',
    timeoutMs: 60_000,
    signal: AbortSignal.timeout(90_000),
  });

  return {
    key,
    freshRequest() {
      const n = ++payments;
      return signRequestFor(key, {
        policyKey: signers.policyKey,
        transaction: nativeTransfer({ nonce: n }),
        receipt: (valid) => ({ ...valid, transaction_id: `txn_${n}`, decision_id: `dec_${n}` }),
      });
    },
    async sign([a, b], request, through = transport) {
      let session = '';
      const watched: SignerTransport = {
        ...through,
        call(peer, p) {
          session = p.session;
          return through.call(peer, p);
        },
      };
      const pair = [signers.peer(a), signers.peer(b)] as const;
      const run = { pair, request, timeoutMs: CALL_TIMEOUT_MS, signal: AbortSignal.timeout(20_000) };
      const outcome = await coordinateSign(watched, run).then(
        (signature) => ({ signature }),
        (error: unknown) => ({ error }),
      );
      return { session, ...outcome };
    },
    poke: (party, session) =>
      signers.transport.call(signers.peer(party), {
        path: '/v1/sign/step',
        session,
        body: { message: 'x' },
        timeoutMs: CALL_TIMEOUT_MS,
      }),
    note: (row) => void table.set(row, (table.get(row) ?? 0) + 1),
    printTable() {
      if (!process.env.PURSER_TEST_TABLE) return;
      console.log(
        [...table]
          .sort()
          .map(([row, n]) => `${n}\t${row}`)
          .join('\n'),
      );
    },
  };
}

/** In few words, for a table. */
export function describeOutcome(outcome: Outcome): string {
  if ('signature' in outcome) return 'signed';
  const { error } = outcome;
  if (error instanceof RefusedBySigner) return `${error.code}, blames ${error.culprit ?? 'nobody'}`;
  return (error as Error).name;
}
