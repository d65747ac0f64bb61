/** How the characters after `whsec_` are read: as base64, or as they are. */
export type SecretFormat = 'base64' | 'utf8';
