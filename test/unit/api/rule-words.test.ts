import fc from 'fast-check';
import { checksumAddress, type Hex } from 'viem';
import { describe, expect, it } from 'vitest';
import { createRuleWords } from '../../../api/schemas/rule-words.ts';
import { createRegistry } from '../../../shared/chain/registry.ts';

const bitcoin = 'bip122:000000000019d6689c085ae165831e93';
const tron = 'tron:0x2b6653dc';

/** What is kept of an address where these chains are served; or why it is refused, with its code. */
function read(text: string, enabled: readonly string[] = ['eip155:1', 'eip155:8453', bitcoin, tron]) {
  const { address } = createRuleWords({ registry: createRegistry({ environment: 'production', enabled }) });
  const result = address.safeParse(text);
  if (result.success) return result.data;
  const [issue, ...others] = result.error.issues;
  expect(others).toEqual([]);
  return { message: issue?.message, code: issue?.code === 'custom' ? issue.params?.code : undefined };
}

/** Sources: EIP-55; BIP-13, BIP-173, BIP-350; Tether's contract on Tron. */
const written = {
  '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed': '0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED',
  '1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa': '1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa',
  '3P14159f73E4gFr7JterCCQh9QjiTjiZrG': '3P14159f73E4gFr7JterCCQh9QjiTjiZrG',
  bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4: 'BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4',
  bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0:
    'BC1P0XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQZK5JJ0',
  TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t: 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t',
};

describe('an address in rules', () => {
  it.each(Object.entries(written))('is kept as %s, however its chain lets it be written', (address, otherwise) => {
    expect([read(address), read(otherwise)]).toEqual([address, address]);
  });

  it('is kept by value on EVM chains, and once kept never changes again', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 20, maxLength: 20 }), (bytes) => {
        fc.pre(bytes.some((byte) => byte !== 0));
        const lower = `0x${Buffer.from(bytes).toString('hex')}` as Hex;
        expect(read(lower)).toBe(checksumAddress(lower));
        expect(read(checksumAddress(lower))).toBe(checksumAddress(lower));
      }),
    );
  });

  it.each(Object.keys(written))('is %s only where a chain of it is served', (address) => {
    const chains = [['eip155:1'], [bitcoin], [tron]];
    const taken = chains.filter((enabled) => read(address, enabled) === address);
    expect(taken).toHaveLength(1);
  });

  it.each([
    ['0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', /^has a wrong checksum \(EIP-55\)/],
    [`0x${'0'.repeat(40)}`, /^is the zero address/],
    ['1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb', /^has a wrong checksum \(base58check\)/],
    ['bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5', /^has a wrong checksum \(BIP-173\)/],
    ['tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx', /^is an address of .*; this is Bitcoin/],
    ['TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6T', /^has a wrong checksum/],
  ])('says what is wrong with %s, as the chain does that it could be of', (text, sentence) => {
    expect(read(text)).toEqual({ code: 'invalid_address', message: expect.stringMatching(sentence) });
  });

  it('tells what every chain wants where it could be of none, and of one chain only what that wants', () => {
    expect(read('vitalik.eth')).toEqual({
      code: 'invalid_address',
      message: expect.stringMatching(
        /^is no address of any chain .* On eip155:1 it must be 0x .* On bip122:\S+ it must be .* On tron:0x2b6653dc it must be /,
      ),
    });
    expect(read('vitalik.eth', ['eip155:1', 'eip155:8453'])).toMatchObject({
      message: 'must be 0x and 40 hexadecimal digits.',
    });
  });
});
