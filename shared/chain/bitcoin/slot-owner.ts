import { hex } from '@scure/base';
import { p2wpkh, type Transaction } from '@scure/btc-signer';
import type { SlotOwner } from '../adapter.ts';
import { agreedHead } from '../endpoints/agreed-blocks.ts';
import { agreedInclusions } from '../endpoints/agreed-inclusions.ts';
import { hearAll, mostNamed } from '../endpoints/agreement.ts';
import type { Coin } from '../family.ts';
import type { BitcoinBackend } from './backend.ts';
import { ask, type BitcoinClient } from './client.ts';
import { questions } from './questions.ts';
import { readRaw } from './unsigned.ts';

type Spender = Awaited<ReturnType<BitcoinBackend['spender']>>;

/**
 * What was mined in the place of `raw`, that is with its first coin, once it is `confirmations` deep and most servers say
 * so.
 * @throws RpcUnavailable
 */
export async function slotOwner(
  client: BitcoinClient,
  { raw, confirmations }: { raw: string; confirmations: number },
): Promise<SlotOwner | undefined> {
  const ours = readRaw(raw);
  const anchor = coinsOf(ours)[0]!;
  const place = await agreedPlace(client, anchor);
  if (!place) return undefined;
  const safe = (await agreedHead(client, questions)).number - confirmations + 1;
  const [agreed] = await agreedInclusions(client, questions, { placed: [place] });
  if (agreed?.outcome !== 'included' || agreed.inclusion.blockNumber > safe) return undefined;
  const bytes = await ask(client, (backend) => backend.raw(place.hash));
  // The hash says what was paid: whoever gave the bytes cannot have changed that.
  const mined = bytes === null ? undefined : readRaw(bytes);
  if (!bytes || mined?.id !== place.hash || !coinsOf(mined).some((coin) => isSame(coin, anchor))) return undefined;
  const own = ownScript(ours);
  return { inclusion: agreed.inclusion, raw: bytes, samePayment: paidBy(mined, own) === paidBy(ours, own) };
}

/** The coins that it spends. The first one of ours is spent by every transaction of the payment. */
function coinsOf(transaction: Transaction): Coin[] {
  return Array.from({ length: transaction.inputsLength }, (_, index) => {
    const input = transaction.getInput(index);
    return { txid: hex.encode(input.txid!), vout: input.index! };
  });
}

function isSame(a: Coin, b: Coin): boolean {
  return a.txid === b.txid && a.vout === b.vout;
}

/** Script of the wallet that signed: its key is part of what unlocks a coin (P2WPKH). */
function ownScript(transaction: Transaction): string {
  const [, publicKey] = transaction.getInput(0).finalScriptWitness!;
  return hex.encode(p2wpkh(publicKey!).script);
}

/** The mined spender of a coin that more than half of all configured servers name. */
async function agreedPlace(
  client: BitcoinClient,
  anchor: Coin,
): Promise<{ hash: string; blockNumber: number } | undefined> {
  const heard = await hearAll(client, [(backend) => backend.spender(anchor)]);
  const found = heard.flatMap(({ answers: [answer] }) => {
    const { hash, place } = (answer as Spender | undefined) ?? {};
    return hash && place ? [{ hash, blockNumber: place.blockNumber }] : [];
  });
  const most = mostNamed(found, ({ hash }) => hash);
  return most && most.count > client.size / 2 ? most.vote : undefined;
}

/** Who is paid how much, besides the wallet itself, in one form that is equal for equal payments. */
function paidBy(transaction: Transaction, own: string): string {
  const outputs = Array.from({ length: transaction.outputsLength }, (_, index) => transaction.getOutput(index));
  const payees = outputs.map(({ script, amount }) => ({ script: hex.encode(script!), amount }));
  return payees
    .filter(({ script }) => script !== own)
    .map(({ script, amount }) => `${script} ${amount}`)
    .toSorted()
    .join(', ');
}
