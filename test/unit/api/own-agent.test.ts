import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Caller, CallingAccount } from '../../../api/caller.ts';
import { isOwnBusiness, limitToOwnAgent } from '../../../api/own-agent.ts';
import { PurserError } from '../../../shared/errors.ts';

const account: CallingAccount = {
  ...{ plan: 'enterprise', ipAllowlist: [], policyWrites: 'any' },
  limits: { perMinute: null, perDay: null, concurrent: null },
};
const accountId = 'acct_1';
const key = (agentId: string | null) => ({ id: 'key_1', name: 'a key', scopes: null, agentId });
const user = { id: 'user_1', sessionId: 'sid_1', email: 'ann@example.com', role: 'owner' } as const;

const agent = fc.constantFrom('agent_1', 'agent_2', 'agent_3');
/** What a request holds, validated: it names an agent, or does not. */
const part = fc.record(
  { agent_id: fc.option(agent, { nil: undefined }), status: fc.string(), page_num: fc.nat() },
  { requiredKeys: [] },
);
const body = fc.oneof(part, fc.constantFrom(undefined, null, 'text', 5), fc.array(fc.string()));
const request = fc.record({ query: part, body, filters: fc.boolean() });
const bound: fc.Arbitrary<[string, Caller]> = agent.map((own) => [own, { accountId, account, key: key(own) }]);
const unbound: fc.Arbitrary<Caller> = fc.oneof(
  fc.constant({ accountId, account, key: key(null) }),
  fc.constant({ accountId, account, user }),
  agent.map((own) => ({ accountId, account, user, key: key(own) })),
);

const namedBy = (value: unknown) => (value as { agent_id?: string } | null | undefined)?.agent_id;

describe('a request by a key of one agent', () => {
  it('is about that agent or refused, whatever it names', () => {
    fc.assert(
      fc.property(bound, request, ([own, caller], { query, body: sent, filters }) => {
        const named = [namedBy(query), namedBy(sent)].filter((each) => each !== undefined);
        let limited: typeof query;
        try {
          limited = limitToOwnAgent({ caller, query, filters, body: sent });
        } catch (error) {
          expect(error).toBeInstanceOf(PurserError);
          expect(error).toMatchObject({ code: 'invalid_request', param: 'agent_id' });
          expect(named.some((each) => each !== own)).toBe(true);
          return;
        }
        expect(named.every((each) => each === own)).toBe(true);
        expect(limited).toEqual(filters ? { ...query, agent_id: own } : query);
      }),
    );
  });

  it('has to do with what is of that agent, and with nothing that is of none', () => {
    fc.assert(
      fc.property(bound, fc.option(agent, { nil: undefined }), ([own, caller], agentId) => {
        expect(isOwnBusiness({ caller, agentId })).toBe(agentId === own);
      }),
    );
  });
});

describe('a request by anybody else', () => {
  it('stays as it is, also of a person who sends the key of an agent besides', () => {
    fc.assert(
      fc.property(
        unbound,
        request,
        fc.option(agent, { nil: undefined }),
        (caller, { query, body: sent, filters }, of) => {
          expect(limitToOwnAgent({ caller, query, filters, body: sent })).toBe(query);
          expect(isOwnBusiness({ caller, agentId: of })).toBe(true);
        },
      ),
    );
  });
});
