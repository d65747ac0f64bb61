import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AuditEntry, type ChainPlace, chainStart, hashAuditEntry, verifyChain } from '../../shared/audit-chain.ts';
import { chainOf, entryContent } from '../support/audit-chains.ts';

const first: AuditEntry = {
  id: 'aud_01kahvd1r0fv2t5c7m4y2q8s3z',
  seq: 1,
  action: 'policy.updated',
  actor: { type: 'user', id: 'user 1', name: 'ops@example.com' },
  resource: { type: 'policy', id: 'pol_01kahvd1r0fv2t5c7m4y2q8s3z' },
  agent_id: 'agent_01kahvd1r0fv2t5c7m4y2q8s3z',
  result: 'success',
  ip_address: '203.0.113.7',
  user_agent: 'curl/8.9',
  request_id: '0b1d9f0e-6c1f-4f2d-9d3c-0b7f7c4b8a11',
  changes: {
    before: { rules: { max_transaction_amount: '100' } },
    after: { rules: { max_transaction_amount: '250' } },
  },
  metadata: { note: 'größer – "wichtig"\n', limit: 1e21, share: 0.1, tags: ['b', 'a', null, true] },
  prev_hash: '0'.repeat(64),
  hash: '',
  created_at: '2026-03-01T12:00:00.000Z',
};

describe('the hash of an entry', () => {
  it('is the same for ever', () => {
    expect(hashAuditEntry(first)).toBe('df0f09a82b4ef41ff72f5b5ff3af5dac40feff57ffa907ec6a6ecb8de1335bc9');
  });

  it('is of the hash before as characters, and of the canonical JSON of the entry without its hash', () => {
    const entry = { ...first, changes: null, metadata: {}, user_agent: null, hash: 'whatever' };
    const canonical =
      '{"action":"policy.updated","actor":{"id":"user 1","name":"ops@example.com","type":"user"},' +
      '"agent_id":"agent_01kahvd1r0fv2t5c7m4y2q8s3z","changes":null,"created_at":"2026-03-01T12:00:00.000Z",' +
      '"id":"aud_01kahvd1r0fv2t5c7m4y2q8s3z","ip_address":"203.0.113.7","metadata":{},' +
      `"prev_hash":"${'0'.repeat(64)}","request_id":"0b1d9f0e-6c1f-4f2d-9d3c-0b7f7c4b8a11",` +
      '"resource":{"id":"pol_01kahvd1r0fv2t5c7m4y2q8s3z","type":"policy"},"result":"success","seq":1,"user_agent":null}';
    const expected = createHash('sha256')
      .update('0'.repeat(64) + canonical, 'utf8')
      .digest('hex');
    expect(hashAuditEntry(entry)).toBe(expected);
  });

  it('does not depend on the order of members', () => {
    const reversed = Object.fromEntries(Object.entries(first).toReversed()) as unknown as AuditEntry;
    expect(hashAuditEntry(reversed)).toBe(hashAuditEntry(first));
  });
});

const placeOf = ({ seq, hash }: AuditEntry): ChainPlace => ({ seq, hash });
const without = (chain: readonly AuditEntry[], index: number) => chain.toSpliced(index, 1);
const some = chainOf([{}, {}, {}, {}, {}, {}, {}, {}]);

describe('a chain', () => {
  it('is valid as it was written, also when empty', async () => {
    expect(await verifyChain(some)).toEqual({
      valid: true,
      checked: 8,
      last: placeOf(some[7]!),
      brokenAt: null,
      reason: null,
    });
    expect(await verifyChain([])).toMatchObject({ valid: true, checked: 0, last: chainStart });
  });

  it('can be followed from any of its entries', async () => {
    const start = placeOf(some[3]!);
    expect(await verifyChain(some.slice(4), { start })).toMatchObject({ valid: true, checked: 4 });
    const other = { seq: 4, hash: some[2]!.hash };
    expect(await verifyChain(some.slice(4), { start: other })).toMatchObject({ reason: 'wrong_start', brokenAt: 5 });
    expect(await verifyChain(some.slice(5), { start })).toMatchObject({ reason: 'wrong_start', brokenAt: 5 });
    expect(await verifyChain(some.slice(3), { start })).toMatchObject({ reason: 'wrong_start', brokenAt: 4 });
    expect(await verifyChain(some.slice(1))).toMatchObject({ reason: 'wrong_start', brokenAt: 1 });
  });

  it('goes through the heads that were noted of it', async () => {
    const heads = [placeOf(some[3]!), placeOf(some[7]!)];
    expect(await verifyChain(some, { heads })).toMatchObject({ valid: true });
    expect(await verifyChain(some.slice(4), { start: placeOf(some[3]!), heads })).toMatchObject({ valid: true });
    expect(await verifyChain(some.slice(0, 6), { heads })).toMatchObject({ reason: 'cut_off', brokenAt: 7 });
    expect(await verifyChain([], { heads })).toMatchObject({ reason: 'cut_off', brokenAt: 1 });
    const other = { seq: 4, hash: some[4]!.hash };
    expect(await verifyChain(some.slice(4), { start: placeOf(some[3]!), heads: [other] })).toMatchObject({
      reason: 'rewritten',
      brokenAt: 4,
    });
  });

  it('is not the one of a head when it was written anew from some entry on', async () => {
    const anew = chainOf([{}, {}, { result: 'denied' }, {}, {}, {}, {}, {}]);
    expect(await verifyChain(anew)).toMatchObject({ valid: true });
    expect(await verifyChain(anew, { heads: [placeOf(some[4]!)] })).toMatchObject({ reason: 'rewritten', brokenAt: 5 });
    expect(await verifyChain(anew, { heads: [placeOf(some[1]!)] })).toMatchObject({ valid: true });
  });

  it('shows an entry that was changed and hashed anew by the next one', async () => {
    const forged = { ...some[3]!, result: 'denied' };
    const chain = some.with(3, { ...forged, hash: hashAuditEntry(forged) });
    expect(await verifyChain(chain)).toMatchObject({ reason: 'unlinked', brokenAt: 5, checked: 4 });
  });

  it('is broken at whatever is no entry', async () => {
    for (const nothing of [
      null,
      7,
      'x',
      [],
      {},
      { seq: '4' },
      { ...some[3], seq: 4.5 },
      { ...some[3], metadata: '\ud800' },
    ])
      expect(await verifyChain([...some.slice(0, 3), nothing, ...some.slice(4)])).toMatchObject({
        reason: 'changed',
        brokenAt: 4,
        checked: 3,
      });
  });

  it('lets go of what it reads, whatever comes of it', async () => {
    for (const chain of [some, without(some, 2), some.with(2, some[4]!), some.with(2, { ...some[2]!, result: 'x' })]) {
      let isClosed = false;
      const entries = async function* () {
        try {
          yield* chain;
        } finally {
          isClosed = true;
        }
      };
      await verifyChain(entries());
      expect(isClosed).toBe(true);
    }
  });
});

/** What can be said in an entry; every member of it. */
const content = fc.record({
  action: fc.constantFrom('policy.updated', 'transaction.signed'),
  result: fc.constantFrom('success', 'denied', 'error'),
  agent_id: fc.option(fc.string({ unit: 'grapheme' })),
  user_agent: fc.option(fc.string({ unit: 'grapheme' })),
  changes: fc.option(fc.record({ before: fc.jsonValue(), after: fc.jsonValue() })),
  metadata: fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()),
});
const chains = fc.array(content, { minLength: 2, maxLength: 12 }).map((contents) => chainOf(contents));
/** A chain and a place in it, from 0. */
const placed = chains.chain((chain) => fc.tuple(fc.constant(chain), fc.nat({ max: chain.length - 1 })));
const members = Object.keys(chainOf([{}])[0]!) as (keyof AuditEntry)[];

describe('of any chain', () => {
  it('is found: a change of any member', () =>
    fc.assert(
      fc.asyncProperty(placed, fc.constantFrom(...members), fc.jsonValue(), async ([chain, index], member, value) => {
        fc.pre(JSON.stringify(chain[index]![member]) !== JSON.stringify(value) && !Object.is(value, -0));
        const report = await verifyChain(chain.with(index, { ...chain[index]!, [member]: value } as AuditEntry));
        expect(report.valid).toBe(false);
        // A number that is another's shows where it is missing; all else where it is.
        if (member === 'seq') expect(report.brokenAt).toBeLessThanOrEqual(index + 1);
        else expect(report).toMatchObject({ brokenAt: index + 1, checked: index });
      }),
    ));

  it('is found: a member less or more', () =>
    fc.assert(
      fc.asyncProperty(placed, fc.constantFrom(...members), async ([chain, index], member) => {
        const { [member]: _gone, ...less } = chain[index]!;
        expect(await verifyChain(chain.with(index, less as AuditEntry))).toMatchObject({ brokenAt: index + 1 });
        const more = { ...chain[index]!, extra: null };
        expect(await verifyChain(chain.with(index, more))).toMatchObject({ brokenAt: index + 1, reason: 'changed' });
      }),
    ));

  it('is found: an entry that was deleted', () =>
    fc.assert(
      fc.asyncProperty(placed, async ([chain, index]) => {
        const heads = [placeOf(chain.at(-1)!)];
        const report = await verifyChain(without(chain, index), { heads });
        const reason = index === chain.length - 1 ? 'cut_off' : index === 0 ? 'wrong_start' : 'missing';
        expect(report).toMatchObject({ valid: false, brokenAt: index + 1, checked: index, reason });
      }),
    ));

  it('is found: an entry that was put in between, also one with the right hash', () =>
    fc.assert(
      fc.asyncProperty(placed, content, async ([chain, index], extra) => {
        const before = index === 0 ? chainStart : placeOf(chain[index - 1]!);
        const [forged] = chainOf([extra], before);
        const reports = [
          await verifyChain(chain.toSpliced(index, 0, forged!)),
          await verifyChain(chain.toSpliced(index, 0, { ...forged!, hash: 'f'.repeat(64) })),
        ];
        for (const report of reports)
          expect(report).toMatchObject({ valid: false, brokenAt: index + 1, reason: 'inserted' });
      }),
    ));

  it('is found: an entry that stands there twice', () =>
    fc.assert(
      fc.asyncProperty(placed, fc.nat(), async ([chain, index], further) => {
        const at = index + 1 + (further % (chain.length - index));
        const report = await verifyChain(chain.toSpliced(at, 0, chain[index]!));
        expect(report).toMatchObject({ valid: false, brokenAt: index + 1, checked: at, reason: 'inserted' });
      }),
    ));

  it('is found: two entries that have changed places, with or without their numbers', () =>
    fc.assert(
      fc.asyncProperty(placed, fc.nat(), async ([chain, index], further) => {
        const other = further % chain.length;
        fc.pre(other !== index);
        const [low, high] = [Math.min(index, other), Math.max(index, other)];
        const [a, b] = [chain[low]!, chain[high]!];
        expect(await verifyChain(chain.with(low, b).with(high, a))).toMatchObject({
          valid: false,
          brokenAt: low + 1,
          checked: low,
          reason: 'out_of_order',
        });
        const renumbered = chain.with(low, { ...b, seq: a.seq }).with(high, { ...a, seq: b.seq });
        expect(await verifyChain(renumbered)).toMatchObject({ brokenAt: low + 1, checked: low, reason: 'changed' });
      }),
    ));

  it('is found: an end that was cut off, by a head that was noted before', () =>
    fc.assert(
      fc.asyncProperty(placed, async ([chain, index]) => {
        const report = await verifyChain(chain.slice(0, index), { heads: [placeOf(chain.at(-1)!)] });
        expect(report).toMatchObject({ valid: false, brokenAt: index + 1, checked: index, reason: 'cut_off' });
      }),
    ));

  it('every part is whole by itself, from the entry before it', () =>
    fc.assert(
      fc.asyncProperty(placed, async ([chain, index]) => {
        const start = placeOf(chain[index]!);
        const report = await verifyChain(chain.slice(index + 1), { start, heads: [placeOf(chain.at(-1)!)] });
        expect(report).toMatchObject({ valid: true, checked: chain.length - index - 1 });
        expect(hashAuditEntry(entryContent(chain[index]!))).toBe(chain[index]!.hash);
      }),
    ));
});
