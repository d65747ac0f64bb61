/** Longest address that mail can be sent to (RFC 5321, 4.5.3.1.3). */
const maxLength = 254;
/**
 * ASCII alone: members are found by their address in lower case, and letters of other scripts become ASCII ones there,
 * so that whoever has one address could pass for another.
 */
const address = /^[!-~]+@[!-~]+$/;

/**
 * The address that an identity provider vouches for, in lower case.
 * @param claims of the ID token, or of the userinfo answer (OpenID Connect Core, 5.1)
 * @param isTrusted whether each address of this provider counts as verified
 */
export function verifiedEmail(
  claims: { readonly email?: unknown; readonly email_verified?: unknown },
  { isTrusted }: { isTrusted: boolean },
): string | null {
  const { email, email_verified: isVerified } = claims;
  if (typeof email !== 'string' || email.length > maxLength || !address.test(email)) return null;
  // Some providers write the claim as text.
  if (isVerified === true || isVerified === 'true') return email.toLowerCase();
  // One that says no is believed, whatever is configured.
  return isTrusted && isVerified === undefined ? email.toLowerCase() : null;
}
