import { isIP } from 'node:net';
import type { Request } from 'express';
import ipaddr from 'ipaddr.js';

/**
 * The address that a request comes from. The header X-Forwarded-For counts only as far as proxies that we were told of
 * wrote it (setting `trust proxy` of the app): everything left of the first address that is no such proxy may have been
 * made up by the client. Where a proxy wrote something that is no address, the address that is connected to us counts.
 * @returns IPv4 in dotted form, also where it came mapped into IPv6; IPv6 as RFC 5952 writes it; empty when the client
 *   has gone already
 */
export function clientAddressOf(request: Request): string {
  return addressIn(request.ip) ?? addressIn(request.socket.remoteAddress) ?? '';
}

function addressIn(text: string | undefined): string | undefined {
  // Node's reading is the strict one; ipaddr.js takes 127.1 and 0x7f000001 for addresses as well.
  if (text === undefined || isIP(text) === 0) return undefined;
  // The zone says at which of our own interfaces an address was seen.
  return ipaddr.process(text.replace(/%.*$/, '')).toString();
}
