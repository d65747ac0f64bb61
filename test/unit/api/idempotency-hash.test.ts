import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hardenHash, hashBody } from '../../../api/idempotency-hash.ts';
import { PurserError } from '../../../shared/errors.ts';

const hashOf = (text: string) => hashBody(JSON.parse(text)).toString('hex');

describe('what makes two bodies one', () => {
  it.each([
    ['white space', '{"a":1,"b":[1,2]}', ' { "a" : 1,\n"b":\t[ 1 , 2 ] } '],
    ['the order of members', '{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}'],
    ['the spelling of numbers', '{"a":100,"b":0}', '{"a":1.00e2,"b":-0}'],
    ['the spelling of text', '{"a":"é/"}', '{"a":"\\u00e9\\/"}'],
    ['a member that is null or left out', '{"a":1}', '{"a":1,"b":null}'],
  ])('is not %s', (_name, one, other) => {
    expect(hashOf(other)).toBe(hashOf(one));
  });

  it.each([
    ['a value', '{"a":"1"}', '{"a":"2"}'],
    ['a type', '{"a":"1"}', '{"a":1}'],
    ['an order of entries', '{"a":[1,2]}', '{"a":[2,1]}'],
    ['a member of a member that is null', '{"a":{"b":null}}', '{"a":{}}'],
    ['the case of a name', '{"a":1}', '{"A":1}'],
    ['composed and decomposed text', '{"a":"é"}', '{"a":"e\u0301"}'],
  ])('is %s', (_name, one, other) => {
    expect(hashOf(other)).not.toBe(hashOf(one));
  });

  it('is an empty object where there is no body', () => {
    expect(hashBody(undefined)).toEqual(hashBody({}));
  });

  it('is who asks, where the answer is one person’s', () => {
    const [ann, bob] = ['ann', 'bob'].map((personId) => hashBody({}, { personId }).toString('hex'));
    expect(new Set([ann, bob, hashOf('{}')]).size).toBe(3);
    expect(hashBody({}, { personId: 'ann' }).toString('hex')).toBe(ann);
  });

  it('has a canonical form, or is refused', () => {
    for (const text of ['{"a":"\\ud800"}', '{"a":1e400}']) expect(() => hashOf(text)).toThrow(PurserError);
  });

  it('holds for whatever is sent, however its members are turned round', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), (body) => {
        const turned = Object.fromEntries(Object.entries(body).reverse());
        expect(hashOf(JSON.stringify(turned, null, 2))).toBe(hashOf(JSON.stringify(body)));
        const more = { ...body, [`${Object.keys(body).join()}!`]: 1 };
        expect(hashOf(JSON.stringify(more))).not.toBe(hashOf(JSON.stringify(body)));
      }),
    );
  });
});

describe('the hash of a body that holds a secret', () => {
  const harden = (body: unknown, salt = 'acct_1 key') => hardenHash(hashBody(body), { salt });

  it('F9: tells bodies apart as the other does, and is another one for each key, so that it is worth no guess', async () => {
    const body = { secret: 'whsec_correct horse battery staple' };
    expect(await harden(body)).toEqual(await harden({ ...body }));
    expect(await harden(body)).not.toEqual(await harden({ secret: 'whsec_another horse battery' }));
    expect(await harden(body)).not.toEqual(await harden(body, 'acct_1 other key'));
    expect(await harden(body)).not.toEqual(hashBody(body));
    expect(await harden(body)).toHaveLength(hashBody(body).length);
  });
});
