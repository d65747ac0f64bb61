import type { Adapter, AdapterPayload } from 'oidc-provider';

/** More than one machine's development leaves behind; the oldest go first. */
const maxEntries = 1_000;

interface Entry {
  payload: AdapterPayload;
  readonly expiresAt: number;
}

/**
 * What an identity provider remembers of sign-ins, in memory: whoever is in the middle of one when it ends begins again.
 * @returns a store for each kind of thing, as oidc-provider wants it
 */
export function createProviderStore(): (kind: string) => Adapter {
  const entries = new Map<string, Entry>();
  const live = (key: string) => {
    const entry = entries.get(key);
    return entry && entry.expiresAt > Date.now() ? entry.payload : undefined;
  };
  return (kind) => {
    const keyOf = (id: string) => `${kind}:${id}`;
    const findBy = (matches: (payload: AdapterPayload) => boolean) =>
      [...entries].find(([key, { payload }]) => key.startsWith(`${kind}:`) && matches(payload))?.[0];
    const findWhere = async (matches: (payload: AdapterPayload) => boolean) => {
      const key = findBy(matches);
      return key === undefined ? undefined : live(key);
    };
    return {
      async upsert(id, payload, expiresInSeconds) {
        entries.delete(keyOf(id));
        const expiresAt = expiresInSeconds ? Date.now() + expiresInSeconds * 1000 : Number.POSITIVE_INFINITY;
        entries.set(keyOf(id), { payload, expiresAt });
        const oldest = entries.size > maxEntries ? entries.keys().next().value : undefined;
        if (oldest !== undefined) entries.delete(oldest);
      },
      find: async (id) => live(keyOf(id)),
      findByUid: (uid) => findWhere((payload) => payload.uid === uid),
      findByUserCode: (userCode) => findWhere((payload) => payload.userCode === userCode),
      async consume(id) {
        const entry = entries.get(keyOf(id));
        if (entry) entry.payload = { ...entry.payload, consumed: Math.floor(Date.now() / 1000) };
      },
      async destroy(id) {
        entries.delete(keyOf(id));
      },
      async revokeByGrantId(grantId) {
        for (const [key, { payload }] of entries)
          if (key.startsWith(`${kind}:`) && payload.grantId === grantId) entries.delete(key);
      },
    };
  };
}
