/** What one field of a message holds: a number, bytes (of a string, too), or another message. */
type FieldValue = bigint | Uint8Array | readonly Field[];
export type Field = readonly [number: number, value: FieldValue];

const VARINT = 0;
const LENGTH_DELIMITED = 2;

/**
 * Writes a message, its fields in the given order; a field whose number is 0 or whose bytes are none is left out, as
 * proto3 has it. Source: Protocol Buffers, "Encoding". Numbers are never rounded on the way.
 * @throws RangeError for a negative number
 */
export function encodeMessage(fields: readonly Field[]): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const [number, value] of fields) {
    if (typeof value === 'bigint') {
      if (value !== 0n) parts.push(tag(number, VARINT), varint(value));
      continue;
    }
    const bytes = value instanceof Uint8Array ? value : encodeMessage(value);
    if (bytes.length > 0) parts.push(tag(number, LENGTH_DELIMITED), varint(BigInt(bytes.length)), bytes);
  }
  return new Uint8Array(Buffer.concat(parts));
}

const tag = (number: number, type: number) => varint(BigInt(number * 8 + type));

function varint(value: bigint): Uint8Array {
  if (value < 0n) throw new RangeError(`${value} is negative`);
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) + 0x80);
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}
