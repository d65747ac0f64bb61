import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { exportJWK, generateKeyPair } from 'jose';

/**
 * Makes the key of an account's owner: a private JWK (Ed25519) in a file of mode 0600. It is the owner's alone: no process
 * of the service has it.
 * @returns the public half, 32 bytes in base64url
 * @throws Error when there is a file already
 */
export async function makeOwnerKey({ file }: { file: string }): Promise<string> {
  const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true });
  const { kty, crv, x, d } = await exportJWK(privateKey);
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(file, `${JSON.stringify({ kty, crv, x, d })}\n`, { mode: 0o600, flag: 'wx' });
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : cause;
    throw new Error(code === 'EEXIST' ? `${file} exists already and is left as it is` : `${file}: ${code}`, { cause });
  }
  return x!;
}
