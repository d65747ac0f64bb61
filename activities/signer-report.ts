import { z } from 'zod';
import type { PartyNumber } from '../shared/domain/signer-alerts.ts';

/** Longest text of a signer that is passed on, in characters. */
const maxTextLength = 200;

/** The last instant that a Date can be. */
const maxInstantMs = 8_640_000_000_000_000;

const keyId = z.string().min(1).max(128);
const epoch = z.object({
  epoch: z.int().positive(),
  state: z.enum(['stored', 'active']),
  createdAtMs: z.int().min(0).max(maxInstantMs),
});
const key = z.object({ keyId, hasRecords: z.boolean(), epochs: z.array(epoch) });
const ban = z.object({
  keyId,
  party: z.union([z.literal(1), z.literal(2), z.literal(3)]),
  reason: z.string().transform(plain),
});
const limit = z.object({ keyId, wallet: z.string().max(128), version: z.int() });
/** Null: there is no target for one. */
const backup = z
  .object({ currentAtMs: z.int().min(0).max(maxInstantMs).nullable(), error: z.string().transform(plain).nullable() })
  .nullable();
const frozen = z.object({ version: z.int().min(0) });
// A signer of an earlier version says nothing of limits, backups and freezes.
const report = z.object({
  keys: z.array(key),
  bans: z.array(ban),
  limits: z.array(limit).default([]),
  backup: backup.optional(),
  frozen: frozen.optional(),
});

/** What one signer says that it holds: as far as it is of use here, and no more than what it says. */
export interface SignerReport extends z.output<typeof report> {
  readonly party: PartyNumber;
}

/** A signer that says nothing that can be used, and why. */
export interface SilentSigner {
  readonly party: PartyNumber;
  readonly error: string;
}

/**
 * Reads what a signer answered. It may be anything: whoever owns the signer signs what they like.
 * @param answer of `SignerClient.status`, for one signer
 */
export function readSignerReport(answer: { readonly party: PartyNumber }): SignerReport | SilentSigner {
  const { party } = answer;
  if ('error' in answer) return { party, error: plain(String(answer.error)) };
  const parsed = report.safeParse(answer);
  if (parsed.success) return { party, ...parsed.data };
  const issue = parsed.error.issues[0]!;
  return { party, error: plain(`signer ${party} says what cannot be read: ${issue.path.join('.')}: ${issue.message}`) };
}

/** One line of what can be shown, cut. */
function plain(text: string): string {
  const shown = text.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
  return shown.length > maxTextLength ? `${shown.slice(0, maxTextLength)}…` : shown;
}
