import { expect } from 'vitest';
import type { TestAccount } from './harness.ts';

export interface KeyedAnswer {
  readonly status: number;
  /** The header of an answer that was made for an earlier request. */
  readonly replayed: string | null;
  /** As it came, byte by byte. */
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at freely, member by member, by assertions
  readonly body: any;
  readonly headers: Headers;
}

let keys = 0;

/** A key that no other test of the file uses. */
export function newKey(): string {
  keys += 1;
  return `key ${keys}`;
}

export const withKey = (key: string) => ({ 'idempotency-key': key });

/** POSTs by the account's key, or by the token in `headers`, that are looked at byte by byte. */
export function createKeyedCalls({ url, account }: { url: string; account: Pick<TestAccount, 'key'> }) {
  async function post(path: string, body: unknown, headers: Record<string, string>): Promise<KeyedAnswer> {
    const credentials = headers.authorization === undefined ? { 'x-api-key': account.key } : {};
    const response = await fetch(`${url}/api/v1${path}`, {
      method: 'POST',
      headers: { ...credentials, ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const replayed = response.headers.get('idempotent-replayed');
    return { status: response.status, replayed, text, body: JSON.parse(text), headers: response.headers };
  }
  return {
    post,

    /** Sends it twice, and sees that the second answer is the first one. */
    async expectReplay(path: string, body: unknown, headers: Record<string, string>): Promise<KeyedAnswer> {
      const first = await post(path, body, headers);
      const second = await post(path, body, headers);
      expect([first.replayed, second.replayed]).toEqual([null, 'true']);
      expect([second.status, second.text]).toEqual([first.status, first.text]);
      expect(second.headers.get('content-type')).toBe(first.headers.get('content-type'));
      expect(second.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'));
      return first;
    },

    async expectConflict(path: string, body: unknown, headers: Record<string, string>): Promise<void> {
      const other = await post(path, body, headers);
      expect([other.status, other.body.code, other.replayed]).toEqual([409, 'idempotency_key_conflict', null]);
    },
  };
}
