import { parseAtoms } from '../money.ts';

/** A stored limit in atoms. @throws Error for what its schema would have refused */
export function readAtoms(text: string): bigint {
  const atoms = parseAtoms(text);
  if (typeof atoms !== 'bigint') throw new Error(`${text} is not a limit.`);
  return atoms;
}
