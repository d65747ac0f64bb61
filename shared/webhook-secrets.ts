import { CompactEncrypt, compactDecrypt, importJWK, type JSONWebKeySet, type JWK } from 'jose';
import type { SealedSecret } from './db/webhooks.ts';

const algorithm = 'ECDH-ES+A256KW';
const encryption = 'A256GCM';

/** Seals a webhook's secret so that only a worker that delivers can open it, and only as this webhook's. */
export type SealSecret = (given: { secret: string; webhookId: string }) => Promise<SealedSecret>;

/** Makes what seals (JWE, RFC 7516). @param publicJwk EC key on P-256, with its `kid` */
export function createSecretSealer({ publicJwk }: { publicJwk: JWK }): SealSecret {
  const keyId = publicJwk.kid;
  if (keyId === undefined) throw new Error('The public key for secrets of webhooks has no kid.');
  const key = importJWK(publicJwk, algorithm);
  return async ({ secret, webhookId }) => {
    const jwe = await new CompactEncrypt(new TextEncoder().encode(secret))
      .setProtectedHeader({ alg: algorithm, enc: encryption, kid: keyId, webhook: webhookId })
      .encrypt(await key);
    return { secret: jwe, keyId };
  };
}

/** A sealed secret that does not open: made for a key that is not here or for another webhook, or damaged. */
export class SecretNotOpened extends Error {
  override readonly name = 'SecretNotOpened';
}

/** What only a worker that delivers has. */
export interface SecretOpener {
  /** Of the key that new secrets should be sealed to. */
  readonly currentKeyId: string;
  /** @param sealed the JWE @throws SecretNotOpened */
  open(given: { sealed: string; webhookId: string }): Promise<string>;
}

/** Makes what opens. @param jwks private keys, each with its `kid`; the first one is the current one */
export function createSecretOpener({ jwks }: { jwks: JSONWebKeySet }): SecretOpener {
  const currentKeyId = jwks.keys[0]?.kid;
  if (currentKeyId === undefined) throw new Error('There is no key that opens secrets of webhooks.');
  const keys = new Map(jwks.keys.map((jwk) => [jwk.kid, importJWK(jwk, algorithm)]));
  return {
    currentKeyId,
    async open({ sealed, webhookId }) {
      const refused = (why: string, cause?: unknown) =>
        new SecretNotOpened(`The secret of ${webhookId} does not open: ${why}.`, { cause });
      const find = ({ kid }: { kid?: string }) => {
        const key = keys.get(kid);
        if (key === undefined) throw refused(`it was sealed to key ${JSON.stringify(kid)}, which is not here`);
        return key;
      };
      const { plaintext, protectedHeader } = await compactDecrypt(sealed, find, {
        keyManagementAlgorithms: [algorithm],
        contentEncryptionAlgorithms: [encryption],
      }).catch((error: unknown) => {
        throw error instanceof SecretNotOpened ? error : refused('it is damaged', error);
      });
      if (protectedHeader.webhook !== webhookId) throw refused('it was sealed for another webhook');
      return new TextDecoder().decode(plaintext);
    },
  };
}
