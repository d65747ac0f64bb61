/** EIP-155 chain id of a CAIP-2 id, e.g. `eip155:8453` → 8453. @throws RangeError for another namespace */
export function evmChainId(chain: string): number {
  const digits = /^eip155:([1-9]\d{0,15})$/.exec(chain)?.[1];
  const id = Number(digits);
  if (digits === undefined || !Number.isSafeInteger(id))
    throw new RangeError(`${chain} is not an EVM chain: its id would be like eip155:8453.`);
  return id;
}
