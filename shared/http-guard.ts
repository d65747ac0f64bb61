import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { isIP, type LookupFunction } from 'node:net';
import { createSecureContext, getCACertificates } from 'node:tls';
import ipaddr from 'ipaddr.js';
import { Client } from 'undici';
import { isLoopback } from './domain/loopback.ts';
import { failureOf, OutgoingFailure } from './outgoing-failure.ts';

export interface HttpGuardOptions {
  /** Whether urls whose host is literally loopback may be asked, by http too. For trying out; never in production. */
  readonly allowLoopback: boolean;
  /** Certificates (PEM) of authorities to trust besides the usual ones. */
  readonly extraCa?: string | undefined;
  /** For one request in all: name, connection, headers and the last byte of the body. */
  readonly timeoutMs?: number;
  /** `address:port` of name servers in place of the system's. */
  readonly nameServers?: readonly string[] | undefined;
}

export interface GuardedRequest {
  /** Absolute, as `URL` writes it. */
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

export interface GuardedAnswer {
  readonly status: number;
  /** By name in lower case; one that came several times is a list. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** As it came: nothing is unpacked. */
  readonly body: Buffer;
}

/** Asks servers that somebody else has named. Whatever goes wrong is an `OutgoingFailure`. */
export type HttpGuard = (request: GuardedRequest) => Promise<GuardedAnswer>;

/** What Node's own server and most others take (facts of x402, number 10). */
const maxHeaderBytes = 16 * 1024;
const maxBodyBytes = 1024 * 1024;
const defaultTimeoutMs = 10_000;
/** Before the next address of the same name is tried as well. */
const nextAddressMs = 1_000;
/** Names are asked for by a library of its own, not by the system: its calls would block all others of the process. */
const nameServerTimeoutMs = 2_000;
const nameServerTries = 2;

/**
 * Makes a client for urls from outside: it resolves the name, refuses any address that is not public, connects to what it
 * has checked, follows no redirect, and reads no more and waits no longer than its limits. Each request is checked anew
 * and has a connection of its own, since a name may lead elsewhere the next time.
 */
export function createHttpGuard({
  allowLoopback,
  extraCa,
  timeoutMs = defaultTimeoutMs,
  nameServers,
}: HttpGuardOptions): HttpGuard {
  // Made once: to read all these certificates takes longer than a request.
  const secureContext =
    extraCa === undefined ? undefined : createSecureContext({ ca: [...getCACertificates('default'), extraCa] });
  return async ({ url: text, method, headers, body }) => {
    const url = new URL(text);
    const signal = AbortSignal.timeout(timeoutMs);
    let client: Client | undefined;
    try {
      const addresses = await checkedAddresses(url, { allowLoopback, nameServers, signal });
      client = new Client(url.origin, {
        connect: {
          lookup: pinTo(addresses),
          timeout: timeoutMs,
          autoSelectFamily: true,
          autoSelectFamilyAttemptTimeout: nextAddressMs,
          ...(secureContext && { secureContext }),
        },
        allowH2: false,
        maxHeaderSize: maxHeaderBytes,
        maxResponseSize: maxBodyBytes,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
      });
      const answer = await client.request({
        path: url.pathname + url.search,
        method,
        headers,
        body: body ?? null,
        signal,
      });
      return {
        status: answer.statusCode,
        headers: answer.headers,
        body: Buffer.from(await answer.body.arrayBuffer()),
      };
    } catch (error) {
      throw failureOf(error, { timeoutMs });
    } finally {
      // Not closed in peace: whoever drips its answer would hold the connection.
      void client?.destroy();
    }
  };
}

/** The addresses that may be connected to. @throws OutgoingFailure when there is none, or any is not for us */
async function checkedAddresses(
  url: URL,
  {
    allowLoopback,
    nameServers,
    signal,
  }: { allowLoopback: boolean; nameServers: readonly string[] | undefined; signal: AbortSignal },
): Promise<string[]> {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const ownMachine = isLoopback(host);
  if (ownMachine && allowLoopback) return host === 'localhost' ? ['127.0.0.1', '::1'] : [host];
  if (url.protocol !== 'https:') throw new OutgoingFailure('blocked_address', 'only https is spoken');
  if (ownMachine) throw new OutgoingFailure('blocked_address', `${host} is not a public address`);
  const addresses = isIP(host) !== 0 ? [host] : await resolve(host, { nameServers, signal });
  const refused = addresses.find((address) => !isPublicAddress(address));
  if (refused === undefined) return addresses;
  // What a name leads to inside of our network is nobody's business.
  throw new OutgoingFailure(
    'blocked_address',
    refused === host ? `${host} is not a public address` : 'its name leads to an address that is not public',
  );
}

/** All addresses of a name, of both kinds. */
async function resolve(
  host: string,
  { nameServers, signal }: { nameServers: readonly string[] | undefined; signal: AbortSignal },
): Promise<string[]> {
  const resolver = new Resolver({ timeout: nameServerTimeoutMs, tries: nameServerTries });
  if (nameServers) resolver.setServers(nameServers);
  const asked = Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  const answers = await Promise.race([asked, once(signal, 'abort').then(() => undefined)]);
  if (!answers) {
    resolver.cancel();
    throw signal.reason;
  }
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  if (addresses.length === 0) throw new OutgoingFailure('dns_error', 'its name does not resolve');
  return addresses;
}

/** Whether an address belongs to the public internet. What is not known to do so does not. */
export function isPublicAddress(text: string): boolean {
  if (isIP(text) === 0) return false;
  const address = ipaddr.parse(text);
  if (address.range() !== 'unicast') return false;
  // Of IPv6, only 2000::/3 has been given out; what else there is contains other addresses or none.
  return address.kind() === 'ipv4' || (address.toByteArray()[0]! & 0xe0) === 0x20;
}

/** Answers every question for a name with addresses that were checked before. */
export function pinTo(addresses: readonly string[]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: ipaddr.parse(address).kind() === 'ipv4' ? 4 : 6 }));
  return (_host, { all }, callback) => {
    const [first] = found;
    if (all) callback(null, found);
    else callback(null, first!.address, first!.family);
  };
}
