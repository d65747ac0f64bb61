import type { TronContract } from '../../domain/receipt.ts';
import { writeTronAddress } from './address.ts';
import { type Contract, protocol } from './protocol.ts';
import { type EncodedTransaction, encodeSigned, idOfRawData, transactionId } from './raw-data.ts';
import { readTransferData } from './transfer-data.ts';

/** What a transaction pays, and to whom. */
export interface Payment {
  /** `native`, or the address of the token's contract. */
  readonly asset: string;
  readonly to: string;
  readonly amountMinor: bigint;
}

/** What signed bytes of ours say. */
export interface SignedTransaction extends Payment {
  /** The transaction's id. */
  readonly hash: string;
  readonly transaction: EncodedTransaction;
  /** r | s | v */
  readonly signature: Uint8Array;
}

/**
 * Reads signed bytes of ours.
 * @param hex the whole message `Transaction`, without `0x`
 * @throws RangeError when they are, or hold, anything but one transfer with one signature
 */
export function readSigned(hex: string): SignedTransaction {
  const message = protocol.Transaction.deserializeBinary(new Uint8Array(Buffer.from(hex, 'hex')));
  const raw = message.getRawData();
  const [contract, ...others] = raw?.getContractList() ?? [];
  const [signature, ...more] = message.getSignatureList_asU8();
  if (!raw || !contract || !signature || others.length > 0 || more.length > 0)
    throw new RangeError('A signed transaction of Tron holds one contract and one signature.');
  const read = readContract(contract);
  const transaction: EncodedTransaction = {
    from: read.from,
    contract: read.contract,
    refBlockBytes: hexOf(raw.getRefBlockBytes_asU8()),
    refBlockHash: hexOf(raw.getRefBlockHash_asU8()),
    timestampMs: exact(raw.getTimestamp()),
    expirationMs: exact(raw.getExpiration()),
    feeLimitSun: String(exact(raw.getFeeLimit())),
  };
  // What was not read, such as a memo or a permission, would be missing here.
  if (hexOf(encodeSigned(transaction, signature)) !== hex)
    throw new RangeError('A signed transaction of ours holds nothing but a transfer, written in one way.');
  return {
    hash: transactionId(transaction),
    transaction,
    ...payment(read.contract),
    signature: new Uint8Array(signature),
  };
}

/**
 * Reads what was signed, as nodes give it back.
 * @param hex the message `Transaction.raw`, without `0x`
 * @returns undefined when it is not one transfer
 */
export function readRawData(hex: string): (Payment & { readonly hash: string; readonly from: string }) | undefined {
  const bytes = new Uint8Array(Buffer.from(hex, 'hex'));
  try {
    const [contract, ...others] = protocol.Transaction.raw.deserializeBinary(bytes).getContractList();
    if (!contract || others.length > 0) return undefined;
    const read = readContract(contract);
    return { hash: idOfRawData(bytes), from: read.from, ...payment(read.contract) };
  } catch {
    return undefined;
  }
}

function readContract(message: Contract): { from: string; contract: TronContract } {
  const parameter = message.getParameter();
  const value = parameter?.getValue_asU8() ?? new Uint8Array();
  switch (parameter?.getTypeName()) {
    case 'protocol.TransferContract': {
      const transfer = protocol.TransferContract.deserializeBinary(value);
      const to = writeTronAddress(transfer.getToAddress_asU8());
      const amountSun = String(exact(transfer.getAmount()));
      return {
        from: writeTronAddress(transfer.getOwnerAddress_asU8()),
        contract: { type: 'transfer', to, amountSun },
      };
    }
    case 'protocol.TriggerSmartContract': {
      const call = protocol.TriggerSmartContract.deserializeBinary(value);
      const contract = writeTronAddress(call.getContractAddress_asU8());
      return {
        from: writeTronAddress(call.getOwnerAddress_asU8()),
        contract: { type: 'trigger', contract, data: hexOf(call.getData_asU8()) },
      };
    }
    default:
      throw new RangeError(`A contract of type ${parameter?.getTypeName() ?? 'nothing'} is no transfer.`);
  }
}

function payment(contract: TronContract): Payment {
  if (contract.type === 'transfer')
    return { asset: 'native', to: contract.to, amountMinor: BigInt(contract.amountSun) };
  const call = readTransferData(contract.data);
  if (!call) throw new RangeError(`The call ${contract.data.slice(0, 8)}… of ${contract.contract} is no transfer.`);
  return { asset: contract.contract, ...call };
}

/** tronweb's decoder rounds what is larger; none of ours is. */
function exact(value: number): number {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is too large to be read exactly.`);
  return value;
}

const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
