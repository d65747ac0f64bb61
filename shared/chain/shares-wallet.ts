import { familyOf } from './families.ts';

/** Whether a wallet of one chain has the same address on the other, and pays there. @param a @param b CAIP-2 ids */
export function sharesWallet(a: string, b: string): boolean {
  const family = familyOf(a);
  return family === familyOf(b) && family.sharesWallet(a, b);
}
