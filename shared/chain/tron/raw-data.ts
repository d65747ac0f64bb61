import { createHash } from 'node:crypto';
import type { TronContract, TronTransaction } from '../../domain/receipt.ts';
import { tronAddressBytes } from './address.ts';
import { AnyMessage, protocol, type Raw } from './protocol.ts';

/** What of a transaction is in its bytes. */
export type EncodedTransaction = Omit<TronTransaction, 'chain' | 'bandwidthSun'>;

const { Transaction, TransferContract, TriggerSmartContract } = protocol;
const { TRANSFERCONTRACT, TRIGGERSMARTCONTRACT } = Transaction.Contract.ContractType as Record<string, number>;

/**
 * The message that is signed. Pure: the same transaction gives the same bytes.
 * @throws RangeError when a number or an address cannot be encoded exactly
 * @see https://github.com/tronprotocol/protocol/blob/master/core/Tron.proto `Transaction.raw`
 */
export function rawDataOf(transaction: EncodedTransaction): Raw {
  const raw = new Transaction.raw();
  raw.setRefBlockBytes(bytesOf(transaction.refBlockBytes, 2));
  raw.setRefBlockHash(bytesOf(transaction.refBlockHash, 8));
  raw.setExpiration(exact(transaction.expirationMs, 'milliseconds'));
  raw.addContract(contractOf(transaction));
  raw.setTimestamp(exact(transaction.timestampMs, 'milliseconds'));
  raw.setFeeLimit(exact(transaction.feeLimitSun, 'sun'));
  return raw;
}

/** The id under which the chain knows a transaction, whatever its signature: SHA-256 of its raw data, in hex. */
export function transactionId(transaction: EncodedTransaction): string {
  return idOfRawData(rawDataOf(transaction).serializeBinary());
}

/** @param raw the serialized message that is signed */
export function idOfRawData(raw: Uint8Array): string {
  return createHash('sha256').update(raw).digest('hex');
}

/** The whole message `Transaction`, as it is sent. @param signature r | s | v, 65 bytes */
export function encodeSigned(transaction: EncodedTransaction, signature: Uint8Array): Uint8Array {
  const message = new Transaction();
  message.setRawData(rawDataOf(transaction));
  message.addSignature(signature);
  return message.serializeBinary();
}

function contractOf({ from, contract }: { from: string; contract: TronContract }) {
  const parameter = new AnyMessage();
  const message = new Transaction.Contract();
  if (contract.type === 'transfer') {
    const transfer = new TransferContract();
    transfer.setOwnerAddress(tronAddressBytes(from));
    transfer.setToAddress(tronAddressBytes(contract.to));
    transfer.setAmount(exact(contract.amountSun, 'sun'));
    parameter.pack(transfer.serializeBinary(), 'protocol.TransferContract');
    message.setType(TRANSFERCONTRACT!);
  } else {
    const call = new TriggerSmartContract();
    call.setOwnerAddress(tronAddressBytes(from));
    call.setContractAddress(tronAddressBytes(contract.contract));
    call.setData(bytesOf(contract.data));
    parameter.pack(call.serializeBinary(), 'protocol.TriggerSmartContract');
    message.setType(TRIGGERSMARTCONTRACT!);
  }
  message.setParameter(parameter);
  return message;
}

/** tronweb's encoder takes numbers of JavaScript, which are exact up to 2^53 - 1; it would round larger ones. */
function exact(value: string | number, unit: string): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number) || number < 0 || String(number) !== String(value))
    throw new RangeError(
      `${value} ${unit} cannot be encoded: it must be a whole number from 0 to ${Number.MAX_SAFE_INTEGER}.`,
    );
  return number;
}

function bytesOf(hex: string, length = hex.length / 2): Uint8Array {
  const bytes = Buffer.from(hex, 'hex');
  if (bytes.length !== length) throw new RangeError(`"${hex}" is not ${length} bytes in hexadecimal digits.`);
  return new Uint8Array(bytes);
}
