import { describe, expect, it } from 'vitest';
import type { BitcoinAgent } from '../../../bench/crash/bitcoin-agents.ts';
import type { BitcoinOutcome } from '../../../bench/crash/bitcoin-outcome.ts';
import { planBitcoin } from '../../../bench/crash/bitcoin-plan.ts';
import { checkBitcoin } from '../../../bench/crash/check-bitcoin.ts';
import type { StoredPayment } from '../../../bench/crash/stored.ts';
import { type LedgerTransaction, scriptOf } from '../../support/bitcoin-ledger.ts';
import { payee } from '../../support/bitcoin-payees.ts';

const [wallet, somebody] = [payee('p2wpkh'), payee('p2tr')];
const [own, theirs] = [scriptOf(wallet), scriptOf(somebody)];
const agent: BitcoinAgent = { id: 'agent', address: wallet, limitSat: 100_000, beforeSat: 500_000n };

function stored(id: string, changes: Partial<StoredPayment> = {}): StoredPayment {
  return {
    ...{ id, agent_id: agent.id, memo: id, status: 'confirmed', status_detail: 'confirmed', to_address: somebody },
    ...{ failure_code: null, failure_message: null, amount: '0.0004', token: 'BTC', nonce: null },
    ...{ hash: `hash-${id}`, attempts: [{ hash: `hash-${id}` }], fee: '0.00001', created_at: '', updated_at: '' },
    ...changes,
  };
}

const coin = (txid: string, valueSat: bigint, { vout = 0, script = own } = {}) => ({ txid, vout, script, valueSat });
const paid: LedgerTransaction = {
  ...{ txid: 'hash-one', height: 7, feeSat: 1_000n, inputs: [coin('first', 300_000n)] },
  outputs: [coin('hash-one', 40_000n, { script: theirs }), coin('hash-one', 259_000n, { vout: 1 })],
};
const givenBack: LedgerTransaction = {
  ...{ txid: 'hash-two', height: 8, feeSat: 1_000n, inputs: [coin('second', 200_000n)] },
  outputs: [coin('hash-two', 199_000n)],
};

/** 0.0004 BTC were paid, and as much was cancelled: all is well. */
function outcome(changes: Partial<BitcoinOutcome> = {}): BitcoinOutcome {
  const rows = [stored('one'), stored('two', { status: 'failed', failure_code: 'cancelled' })];
  return {
    agents: [agent],
    asked: rows.map(({ id }) => ({
      ...{ planned: { atMs: 0, client: 'insists' }, memo: id, body: {} },
      answers: [{ status: 200, body: { id }, replayed: false }],
    })),
    stored: rows,
    wallets: new Map([[agent.id, { sent: [paid, givenBack], coins: [paid.outputs[1]!, givenBack.outputs[0]!] }]]),
    taken: [
      { txid: 'first', vout: 0, transaction_id: 'one' },
      { txid: 'second', vout: 0, transaction_id: 'two' },
    ],
    ...changes,
  };
}
const withWallet = (sent: readonly LedgerTransaction[], coins = outcome().wallets.get(agent.id)!.coins) =>
  outcome({ wallets: new Map([[agent.id, { sent, coins }]]) });
const withRow = (index: number, changes: Partial<StoredPayment>) =>
  outcome({ stored: outcome().stored.map((row, at) => (at === index ? { ...row, ...changes } : row)) });
const found = (changed: BitcoinOutcome) => checkBitcoin(changed).join('\n');

describe('the check of a round on Bitcoin', () => {
  it('finds nothing where all is well', () => {
    expect(checkBitcoin(outcome())).toEqual([]);
  });

  it('finds a payment that is not there, is there twice, or is there for nobody', () => {
    expect(found(withWallet([givenBack]))).toContain(
      'one is confirmed, and its transaction hash-one is not on the chain',
    );
    const again = { ...paid, txid: 'hash-again' };
    expect(found(withWallet([paid, again, givenBack]))).toContain('hash-again spends coins');
    const attempts = [{ hash: 'hash-one' }, { hash: 'hash-again' }];
    const twice = { ...withWallet([paid, again, givenBack]), stored: withRow(0, { attempts }).stored };
    expect(found(twice)).toContain('one is on the chain 2 times: hash-one, hash-again.');
  });

  it('finds a wrong amount, somebody who was paid beside it, and a wrong fee', () => {
    expect(found(withRow(0, { amount: '0.00041' }))).toContain('not 41000 to');
    const [first, change] = paid.outputs as [LedgerTransaction['outputs'][0], LedgerTransaction['outputs'][0]];
    const beside = { ...paid, outputs: [first, { ...change, script: theirs }] };
    expect(found(withWallet([beside, givenBack]))).toContain('hash-one of one pays more than');
    expect(found(withRow(0, { fee: '0.00002' }))).toContain('one has a fee of 0.00002; the chain took 0.00001.');
  });

  it('finds that a failed payment paid, and what is still pending', () => {
    const moved = { ...givenBack, outputs: [{ ...givenBack.outputs[0]!, script: theirs }] };
    expect(found(withWallet([paid, moved]))).toContain('two failed (cancelled), and hash-two paid somebody.');
    expect(found(withRow(1, { status: 'pending' }))).toContain('two is still pending');
  });

  it('finds a satoshi too few, and a limit that was passed', () => {
    const [first, second] = outcome().wallets.get(agent.id)!.coins;
    expect(found(withWallet([paid, givenBack], [{ ...first!, valueSat: 258_999n }, second!]))).toContain(
      'has 457999 satoshis and should have 458000.',
    );
    expect(found(outcome({ agents: [{ ...agent, limitSat: 39_999 }] }))).toContain('sent 40000 satoshis');
    const denied = withRow(1, { failure_code: 'policy_violation' }).stored;
    expect(found(outcome({ stored: denied, agents: [{ ...agent, limitSat: null }] }))).toContain('has no limit');
  });

  it('finds a coin that is noted for another payment, for none, or kept by one that has ended', () => {
    const [first, second] = outcome().taken;
    expect(found(outcome({ taken: [first!] }))).toContain('noted for another payment or none');
    expect(found(outcome({ taken: [{ ...first!, transaction_id: 'two' }, second!] }))).toContain('spends first:0');
    const kept = { txid: 'hash-two', vout: 0, transaction_id: 'one' };
    expect(found(outcome({ taken: [first!, second!, kept] }))).toContain('keeps it from others');
  });

  it('finds an answer that nobody can have, and a payment that nobody asked for', () => {
    expect(found(outcome({ asked: outcome().asked.slice(1) }))).toContain('one was asked for by nobody');
    expect(found(outcome({ stored: outcome().stored.slice(1) }))).toContain('is not stored');
  });
});

describe('the plan of a round on Bitcoin', () => {
  it('follows from the seed, and pays every kind of address', () => {
    expect(planBitcoin(7, { withinMs: 3_000 })).toEqual(planBitcoin(7, { withinMs: 3_000 }));
    const plans = Array.from({ length: 40 }, (_, seed) => planBitcoin(seed, { withinMs: 3_000 }));
    const sizes = new Set(
      plans.flatMap(({ payments }) =>
        payments.flatMap(({ to }) => (typeof to === 'string' ? scriptOf(to).length : [])),
      ),
    );
    // P2PKH, P2SH, P2WPKH; P2WSH and P2TR are as long as each other.
    expect([...sizes].toSorted((a, b) => a - b)).toEqual([44, 46, 50, 68]);
    const kinds = new Set(plans.flatMap(({ faults }) => faults.map(({ kind }) => kind)));
    expect([...kinds].toSorted()).toEqual(['door', 'full', 'node', 'reorg']);
  });
});
