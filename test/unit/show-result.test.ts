import { describe, expect, it } from 'vitest';
import { showResult } from '../../shared/show-result.ts';

describe('a result for people', () => {
  it('is names and values, line by line', () => {
    expect(showResult({ account_id: 'acct_1', keyId: 'k', allowed: true, left: null, scopes: ['a', 'b'] })).toBe(
      'account id: acct_1\nkey id: k\nallowed: yes\nleft: –\nscopes: a, b',
    );
  });

  it('shows lists of plain things as a table, and others one by one', () => {
    const signers = [
      { party: 1, error: null },
      { party: 2, error: 'away' },
    ];
    expect(showResult({ signers })).toBe('signers:\n  party  error\n  1      –\n  2      away');
    expect(showResult({ keys: [{ id: 'k', bans: [{ party: 1 }] }], failed: [] })).toBe(
      'keys:\n  - id: k\n    bans:\n      - party: 1\nfailed: none',
    );
  });

  it('shows row by row what is too wide for a table', () => {
    const rows = [{ text: 'x'.repeat(200) }, { text: 'y' }];
    expect(showResult(rows)).toBe(`- text: ${'x'.repeat(200)}\n- text: y`);
  });

  it('lets nothing that others wrote move the cursor or begin a line', () => {
    expect(showResult({ name: 'a\u001b[2J\nok: yes\u202e\u009b' })).toBe(
      'name: a\\u001b[2J\\u000aok: yes\\u202e\\u009b',
    );
  });
});
