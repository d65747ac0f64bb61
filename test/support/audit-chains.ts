import { type AuditEntry, type ChainPlace, chainStart, hashAuditEntry } from '../../shared/audit-chain.ts';

/** The entry without its hash. */
export function entryContent({ hash: _hash, ...content }: AuditEntry): Omit<AuditEntry, 'hash'> {
  return content;
}

/** A chain of entries that say this, each a second after the one before. */
export function chainOf(
  contents: readonly Partial<AuditEntry>[],
  { seq: from, hash: fromHash }: ChainPlace = chainStart,
): AuditEntry[] {
  let prevHash = fromHash;
  return contents.map((given, index) => {
    const seq = from + index + 1;
    const content = {
      id: `aud_${seq}`,
      action: 'policy.updated',
      actor: { type: 'api_key', id: 'key_1', name: 'ops' },
      resource: { type: 'policy', id: 'pol_1' },
      agent_id: 'agent_1',
      result: 'success',
      ip_address: '203.0.113.7',
      user_agent: null,
      request_id: 'request 1',
      changes: null,
      metadata: {},
      created_at: new Date(Date.UTC(2026, 2, 1) + 1_000 * seq).toISOString(),
      ...given,
      seq,
      prev_hash: prevHash,
    };
    prevHash = hashAuditEntry(content);
    return { ...content, hash: prevHash };
  });
}
