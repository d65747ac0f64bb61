import type { KeyEncryption } from '../kek.ts';
import { Refusal } from '../refusal.ts';

/** What a sealed share is bound to: opened as anything else, it does not open. */
export interface ShareRow {
  keyId: string;
  epoch: number;
  engineVersion: string;
}

/** Seals the shares of one party for the store. */
export interface ShareSealing {
  /** @returns with the id of the key-encryption key under which it is sealed */
  seal(share: Uint8Array, row: ShareRow): { sealed: Uint8Array; kekId: string };
  /** @throws Refusal `share_damaged` */
  open(sealed: { sealed: Uint8Array; kekId: string }, row: ShareRow): Uint8Array;
}

export function createShareSealing(p: { party: number; keyEncryption: KeyEncryption }): ShareSealing {
  const contextOf = ({ keyId, epoch, engineVersion }: ShareRow) =>
    Buffer.from(JSON.stringify(['purser-share', keyId, p.party, epoch, engineVersion]));
  return {
    seal: (share, row) => p.keyEncryption.seal(share, contextOf(row)),
    open({ sealed, kekId }, row) {
      try {
        return p.keyEncryption.open(sealed, contextOf(row), kekId);
      } catch (cause) {
        throw new Refusal(
          'share_damaged',
          `signer ${p.party}: the stored share of key ${row.keyId}, epoch ${row.epoch}, does not open: ${(cause as Error).message}`,
          { cause },
        );
      }
    },
  };
}
