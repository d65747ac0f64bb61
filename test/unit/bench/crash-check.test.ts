import { type Address, encodeFunctionData, erc20Abi, type Hex, parseEther, parseUnits } from 'viem';
import { describe, expect, it } from 'vitest';
import type { CrashAgent } from '../../../bench/crash/agents.ts';
import type { Mined } from '../../../bench/crash/chain.ts';
import { checkRound } from '../../../bench/crash/check-round.ts';
import type { Asked } from '../../../bench/crash/load.ts';
import type { RoundOutcome } from '../../../bench/crash/outcome.ts';
import type { StoredPayment } from '../../../bench/crash/stored.ts';

const usdcAddress: Address = '0x5fbdb2315678afecb367f032d93f642f64180aa3';
const wallet: Address = '0x70997970c51812dc3a010c7d01b50e0d17dc79c8';
const somebody: Address = '0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc';
const feeWei = 21_000n;

const agent: CrashAgent = {
  id: 'agent',
  address: wallet,
  policies: [{ type: 'spending_limit', rules: { daily_limit: '10', token: 'USDC' } }],
  before: { wei: parseEther('10'), minorUnits: parseUnits('100', 6) },
};

function stored(id: string, changes: Partial<StoredPayment> = {}): StoredPayment {
  return {
    ...{ id, agent_id: agent.id, memo: id, status: 'confirmed', status_detail: 'confirmed', to_address: somebody },
    ...{ failure_code: null, failure_message: null, amount: '1', token: 'ETH', nonce: 0, hash: '0x01' },
    attempts: [],
    ...{ fee: '0.000000000000021', created_at: '', updated_at: '' },
    ...changes,
  };
}

function asked({ id }: StoredPayment): Asked {
  return {
    ...{ planned: { atMs: 0, client: 'insists' }, memo: id, body: {} },
    answers: [{ status: 200, body: { id }, replayed: false }],
  };
}

const transfer = (amount: string): Hex =>
  encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [somebody, parseUnits(amount, 6)] });
const eth: Mined = {
  ...{ hash: '0x01', nonce: 0, to: somebody, data: '0x', succeeded: true, feeWei },
  valueWei: parseEther('1'),
};
const usdc: Mined = { ...eth, hash: '0x02', nonce: 1, to: usdcAddress, valueWei: 0n, data: transfer('9') };

/** 1 ETH and 9 USDC were paid, 2 USDC were denied: all is well. */
function outcome(): RoundOutcome {
  const rows = [
    stored('one'),
    stored('two', { token: 'USDC', amount: '9', nonce: 1, hash: '0x02' }),
    stored('three', {
      ...{ token: 'USDC', amount: '2', nonce: null, hash: null, fee: null },
      ...{ status: 'failed', failure_code: 'policy_violation' },
    }),
  ];
  return {
    agents: [agent],
    asked: rows.map(asked),
    stored: rows,
    mined: new Map([[agent.id, [eth, usdc]]]),
    counts: new Map([[agent.id, 2]]),
    after: new Map([[agent.id, { wei: parseEther('9') - 2n * feeWei, minorUnits: parseUnits('91', 6) }]]),
    usdcAddress,
  };
}

const mined = (...transactions: Mined[]) => ({ mined: new Map([[agent.id, transactions]]) });
const withRow = (index: number, changes: Partial<StoredPayment>): Partial<RoundOutcome> => ({
  stored: outcome().stored.map((row, at) => (at === index ? { ...row, ...changes } : row)),
});
const withAnswers = (...answers: Asked['answers']): Partial<RoundOutcome> => ({
  asked: outcome().asked.map((each, at) => (at === 0 ? { ...each, answers } : each)),
});

describe('the check of a round', () => {
  it('finds nothing where all is well', () => {
    expect(checkRound(outcome())).toEqual([]);
  });

  it.each<[string, Partial<RoundOutcome>, RegExp]>([
    ['an accepted POST is lost', { stored: outcome().stored.slice(1) }, /"one" was asked for .* not stored/],
    ['one is stored twice', { stored: [...outcome().stored, stored('four', { memo: 'one' })] }, /stored 2 times/],
    ['something was asked for by nobody', withRow(0, { memo: 'other' }), /one was asked for by nobody/],
    [
      'one was refused',
      withAnswers({ status: 400, body: { code: 'invalid_request' }, replayed: false }),
      /was refused/,
    ],
    [
      'two answers tell of two payments',
      withAnswers(
        { status: 200, body: { id: 'one' }, replayed: false },
        { status: 200, body: { id: 'two' }, replayed: true },
      ),
      /different ids/,
    ],
    [
      'two replays differ',
      withAnswers(
        ...['pending', 'failed'].map((status) => ({ status: 200, body: { id: 'one', status }, replayed: true })),
      ),
      /different answers/,
    ],
    ['a payment is pending', withRow(0, { status: 'pending' }), /one is still pending/],
    ['one failed without a reason', withRow(2, { failure_code: null }), /three failed without a reason/],
    ['one is not on the chain', mined(usdc), /one is confirmed, .* not on the chain/],
    ['one is on the chain twice', mined(eth, usdc, { ...eth, hash: '0x03', nonce: 2 }), /0x03 .* for no payment/],
    ['one was reverted', mined({ ...eth, succeeded: false }, usdc), /the chain reverted 0x01/],
    ['it pays somebody else', mined({ ...eth, to: wallet }, usdc), /pays something else/],
    ['it pays another amount', mined(eth, { ...usdc, data: transfer('8') }), /pays something else/],
    ['a failed one was paid', withRow(0, { status: 'failed', failure_code: 'cancelled' }), /0x01 moved something/],
    ['the fee is another', mined({ ...eth, feeWei: 1n }, usdc), /one has a fee of/],
    ['a nonce is missing', mined(eth, { ...usdc, nonce: 2 }), /used the nonces 0, 2/],
    ['more was sent than is final', { counts: new Map([[agent.id, 3]]) }, /counts 3 transactions .* 2 are final/],
    [
      'a wei is missing',
      { after: new Map([[agent.id, { wei: parseEther('9') - 2n * feeWei - 1n, minorUnits: parseUnits('91', 6) }]]) },
      /has 8999999999999957999 wei/,
    ],
    [
      'a limit was passed',
      mined(eth, { ...usdc, data: transfer('10.000001') }),
      /sent 10000001 minor units of USDC; its limit is 10000000/,
    ],
    ['a payment was denied for nothing', withRow(2, { amount: '1' }), /three was denied .* had room/],
  ])('says so when %s', (_, changes, sentence) => {
    expect(checkRound({ ...outcome(), ...changes }).join('\n')).toMatch(sentence);
  });

  it('lets a cancelled payment use its nonce up for nothing', () => {
    const noop: Mined = { ...eth, to: wallet, valueWei: 0n };
    const cancelled = withRow(0, { status: 'failed', failure_code: 'cancelled', hash: null });
    const after = new Map([[agent.id, { wei: parseEther('10') - 2n * feeWei, minorUnits: parseUnits('91', 6) }]]);
    expect(checkRound({ ...outcome(), ...cancelled, ...mined(noop, usdc), after })).toEqual([]);
  });
});
