import type { SignerClient } from '../client.ts';

/** What came of a run over keys. */
export interface KeysReport<T> {
  keys: number;
  /** How many ended which way. */
  outcomes: Record<string, number>;
  failed: { keyId: string; error: string }[];
  /** Of the one key that was named. */
  result?: T;
}

/**
 * Does one thing to one key, or to every key that any signer has in use, one after the other. A key that fails does not
 * keep the others from their turn; the exit code is then 1.
 */
export async function eachKey<T extends { outcome: string }>(
  p: { client: SignerClient; key: string | undefined; tell: (line: string) => void },
  run: (keyId: string) => Promise<T>,
): Promise<KeysReport<T>> {
  const keyIds = p.key ? [p.key] : await listKeys(p.client);
  const report: KeysReport<T> = { keys: keyIds.length, outcomes: {}, failed: [] };
  for (const [index, keyId] of keyIds.entries()) {
    const at = `${index + 1} of ${keyIds.length}: ${keyId}`;
    try {
      const result = await run(keyId);
      report.outcomes[result.outcome] = (report.outcomes[result.outcome] ?? 0) + 1;
      if (p.key) report.result = result;
      p.tell(`${at} ${result.outcome}`);
    } catch (error) {
      const { message } = error as Error;
      report.failed.push({ keyId, error: message });
      p.tell(`${at} failed: ${message}`);
    }
  }
  if (report.failed.length > 0) process.exitCode = 1;
  return report;
}

/** @throws Error when no signer answers */
async function listKeys(client: SignerClient): Promise<string[]> {
  const signers = await client.status();
  const answered = signers.flatMap((signer) => ('keys' in signer ? [signer.keys] : []));
  if (answered.length > 0) return [...new Set(answered.flat().map(({ keyId }) => keyId))].toSorted();
  throw new Error(signers.map((signer) => ('error' in signer ? signer.error : '')).join('; '));
}
