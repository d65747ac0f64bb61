import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Bits of the prefix that every IPv4 address has when it is written as an IPv6 one (RFC 4291, 2.5.5.2). */
const mappedBits = 96;

/**
 * Reads a network in CIDR notation, or one address.
 * @returns the network as it is kept, always with its length and IPv4 never mapped into IPv6; or a text that says what is
 *   wrong and what would be right
 */
export function readNetwork(text: string): { readonly network: string } | { readonly wrong: string } {
  const [, host = '', digits] = /^([^/]*)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  const address = readAddress(host);
  if (!address)
    return { wrong: 'is no network such as 192.0.2.0/24 or 2001:db8::/32, and no address such as 192.0.2.7' };
  const bits = lengthOf(address);
  const prefix = digits === undefined ? bits : Number(digits);
  if (prefix > bits) return { wrong: `has a length of more than ${bits} bits` };
  const first = (address.kind() === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6).networkAddressFromCIDR(
    `${address.toString()}/${prefix}`,
  );
  // Somebody who writes 192.0.2.7/8 has meant one address, or a few, and would let in sixteen million.
  if (first.toString() !== address.toString())
    return {
      wrong: `has bits set beyond its length: ${first.toString()}/${prefix} is the network, ${host} the address`,
    };
  const plain = withoutMapping(address, prefix);
  return { network: `${plain.address.toString()}/${plain.prefix}` };
}

/**
 * Whether an address is in one of the networks. Nothing is in none, and no text that is not an address is in any.
 * @param networks as `readNetwork` gives them
 */
export function isInNetworks({ address: text, networks }: { address: string; networks: readonly string[] }): boolean {
  const address = readAddress(text);
  if (!address) return false;
  const plain = withoutMapping(address, lengthOf(address)).address;
  return networks.some((network) => {
    const [base, prefix] = ipaddr.parseCIDR(network);
    return base.kind() === plain.kind() && plain.match(base, prefix);
  });
}

/** Strictly: no octal or short forms of IPv4, no zone. */
function readAddress(text: string): Address | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  return ipaddr.IPv6.isValid(text) && !text.includes('%') ? ipaddr.IPv6.parse(text) : undefined;
}

const lengthOf = (address: Address) => address.toByteArray().length * 8;

function withoutMapping(address: Address, prefix: number): { address: Address; prefix: number } {
  if (!('isIPv4MappedAddress' in address) || !address.isIPv4MappedAddress() || prefix < mappedBits)
    return { address, prefix };
  return { address: address.toIPv4Address(), prefix: prefix - mappedBits };
}
