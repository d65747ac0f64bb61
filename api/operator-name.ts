import { userInfo } from 'node:os';

const maxOperatorLength = 64;

/** Who is at the console, as far as the system knows; a container's user may have no name. */
export function operatorName(): string {
  try {
    return userInfo()
      .username.replaceAll(/[^\x21-\x7e]/g, '_')
      .slice(0, maxOperatorLength);
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
