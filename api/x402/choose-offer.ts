import { familyOf } from '../../shared/chain/families.ts';
import type { ReadAddress } from '../../shared/chain/family.ts';
import type { Registry, Token, TokenDomain } from '../../shared/chain/registry.ts';
import type { StoredOffer } from '../../shared/db/x402-payments.ts';
import { formatAmount } from '../../shared/domain/money.ts';
import { windowOf } from '../../shared/domain/x402.ts';
import { PurserError } from '../../shared/errors.ts';
import type { Offer, PaymentRequired } from './read-offers.ts';

/** The offer that is going to be paid. */
export interface ChosenOffer {
  readonly amountMinor: bigint;
  /** In its one written form. */
  readonly payTo: string;
  readonly domain: TokenDomain;
  /** How long an authorisation is to be good. */
  readonly windowSeconds: number;
  readonly version: 1 | 2;
  readonly offer: StoredOffer;
}

/** What an offer is held against. */
export interface OfferTerms {
  readonly required: PaymentRequired;
  readonly targetUrl: string;
  /** CAIP-2. */
  readonly chain: string;
  readonly token: Token;
  /** Who pays; undefined where that is not known yet. */
  readonly walletAddress: string | undefined;
  readonly registry: Registry;
  readonly maxAmountMinor?: bigint | undefined;
}

/** An offer that can be accepted, or why not. */
export type JudgedOffer = Omit<ChosenOffer, 'version' | 'offer'> | { readonly reason: string };

/** An hour and a day are asked for in earnest; beyond it, the signed authorisation is what somebody is after. */
const absurdTimeoutSeconds = 86_400;
const maxMinor = (1n << 256n) - 1n;
/**
 * What is echoed has to fit into a header of 16 KiB together with the signature, in base64. Version 1 echoes next to
 * nothing.
 */
const maxEchoedBytes: Readonly<Record<1 | 2, number>> = { 1: 64 * 1024, 2: 8 * 1024 };

/**
 * Chooses the cheapest offer that can be accepted; of several that cost the same, the first.
 * @throws PurserError 400 `no_acceptable_offer`; `details.offers` says of each why not
 */
export function chooseOffer(terms: OfferTerms): ChosenOffer {
  const { required } = terms;
  const judged = required.offers.map((offer) => ({ offer, verdict: judgeOffer(offer, terms) }));
  const acceptable = judged.flatMap(({ offer, verdict }) => ('reason' in verdict ? [] : [{ ...verdict, offer }]));
  const [first, ...others] = acceptable;
  if (!first) throw noneAcceptable(judged.flatMap(({ verdict }) => ('reason' in verdict ? [verdict.reason] : [])));
  const { offer, ...best } = others.reduce(
    (least, next) => (next.amountMinor < least.amountMinor ? next : least),
    first,
  );
  return { ...best, version: required.version, offer: storedOffer(offer, required) };
}

/** Whether an offer can be accepted. The reasons repeat only what is known to be harmless and short. */
export function judgeOffer(offer: Offer, terms: OfferTerms): JudgedOffer {
  const { required, targetUrl, chain, token, walletAddress, registry, maxAmountMinor } = terms;
  if (offer.scheme !== 'exact') return { reason: `scheme ${quoted(offer.scheme)} is not supported; exact is` };
  if (offer.network !== chain) return { reason: `network ${quoted(offer.network)} is not ${chain}` };
  const asset = readOfferAddress(offer.asset, chain);
  if ('fault' in asset) return { reason: `asset ${asset.fault}` };
  if (asset.address !== token.asset) return { reason: `asset ${asset.address} is not the ${token.symbol} of ${chain}` };
  if (!token.domain)
    return { reason: `${token.symbol} of ${chain} cannot be paid by a signed authorisation (EIP-3009)` };
  const payee = readOfferAddress(offer.payTo, chain);
  if ('fault' in payee) return { reason: `payTo ${payee.fault}` };
  const payTo = payee.address;
  if (payTo === walletAddress) return { reason: 'payTo is the wallet that is to pay' };
  if (registry.chain(chain)?.tokens.some((each) => each.asset === payTo))
    return { reason: 'payTo is the contract of a token' };
  const amountMinor = readMinor(offer.amount);
  if (amountMinor === undefined)
    return { reason: `amount ${quoted(offer.amount)} is not a positive number of minor units` };
  if (maxAmountMinor !== undefined && amountMinor > maxAmountMinor) {
    const [asked, most] = [amountMinor, maxAmountMinor].map((minor) => formatAmount(minor, token.decimals));
    return { reason: `amount ${asked} ${token.symbol} is more than max_amount ${most}` };
  }
  const fault =
    timeoutFault(offer.maxTimeoutSeconds) ??
    extraFault(offer.extra, { token, domain: token.domain }) ??
    resourceFault(offer, { required, targetUrl }) ??
    sizeFault(offer, { required });
  if (fault !== undefined) return { reason: fault };
  return { amountMinor, payTo, domain: token.domain, windowSeconds: windowOf(offer.maxTimeoutSeconds) };
}

function timeoutFault(seconds: number): string | undefined {
  if (Number.isNaN(seconds)) return 'maxTimeoutSeconds is not a number';
  if (seconds < 1) return `maxTimeoutSeconds ${seconds} leaves no time to pay`;
  if (seconds > absurdTimeoutSeconds) return `maxTimeoutSeconds ${seconds} is more than a day`;
  return undefined;
}

/** What the offer says of the token has to agree with what is known of it; it need not say anything. */
function extraFault(
  { name, version, decimals, assetTransferMethod: method }: Offer['extra'],
  { token, domain }: { token: Token; domain: TokenDomain },
): string | undefined {
  if (isGiven(name) && name !== domain.name)
    return `extra.name ${quoted(name)} is not the EIP-712 name of the token, ${quoted(domain.name)}`;
  if (isGiven(version) && version !== domain.version)
    return `extra.version ${quoted(version)} is not the EIP-712 version of the token, ${quoted(domain.version)}`;
  if (isGiven(decimals) && decimals !== token.decimals)
    return `extra.decimals ${quoted(decimals)} is not what the token has, ${token.decimals}`;
  if (isGiven(method) && method !== 'eip3009') return `extra.assetTransferMethod ${quoted(method)} is not eip3009`;
  return undefined;
}

/**
 * An offer for something that is sold elsewhere may be copied from there. A server behind one that speaks TLS for it takes
 * its own scheme for http: that is the same place.
 */
function resourceFault(
  offer: Offer,
  { required, targetUrl }: { required: PaymentRequired; targetUrl: string },
): string | undefined {
  const written = required.version === 1 ? offer.raw.resource : (required.resource as { url?: unknown } | null)?.url;
  if (!isGiven(written)) return undefined;
  const resource = typeof written === 'string' ? URL.parse(written, targetUrl) : null;
  if (!resource) return 'the url of the resource cannot be read';
  const target = new URL(targetUrl);
  const isSame = resource.host === target.host && (resource.protocol === 'http:' || resource.protocol === 'https:');
  return isSame ? undefined : `the resource is at ${quoted(resource.origin)}, not at ${target.origin}`;
}

function sizeFault(offer: Offer, { required }: { required: PaymentRequired }): string | undefined {
  const most = maxEchoedBytes[required.version];
  const bytes = Buffer.byteLength(JSON.stringify(storedOffer(offer, required)));
  return bytes > most ? `it is too large to be echoed in a header: ${bytes} bytes, ${most} at most` : undefined;
}

function storedOffer({ raw }: Offer, { resource, extensions }: PaymentRequired): StoredOffer {
  return { resource, accepted: raw, extensions };
}

function readMinor(text: string): bigint | undefined {
  // Seventy-eight digits hold every amount that a contract can.
  if (!/^[1-9]\d{0,77}$/.test(text)) return undefined;
  const minor = BigInt(text);
  return minor > maxMinor ? undefined : minor;
}

const addressFaults: Readonly<Record<Extract<ReadAddress, { fault: string }>['fault'], string>> = {
  malformed: 'is not an address',
  checksum: 'has a wrong checksum',
  zero: 'is the zero address',
  wrong_network: 'is an address of another network',
};

/** An address as an offer on a chain writes it; or what is wrong with it, as the end of a reason. */
export function readOfferAddress(
  text: string,
  chain: string,
): { readonly address: string } | { readonly fault: string } {
  const read = familyOf(chain).readAddress(text, chain);
  return 'fault' in read ? { fault: addressFaults[read.fault] } : read;
}

const isGiven = (value: unknown): boolean => value !== undefined && value !== null;

const longestQuote = 80;

/** Something that the target wrote, short and on one line: it is read by agents. */
export function quoted(value: unknown): string {
  const text = JSON.stringify(value) ?? '';
  return text.length <= longestQuote ? text : `${text.slice(0, longestQuote)}…`;
}

function noneAcceptable(reasons: readonly string[]): PurserError {
  const details = { offers: reasons.map((reason, index) => ({ index, reason })) };
  const message =
    reasons.length === 0
      ? 'The target asks for a payment, but offers no way to pay.'
      : `None of the ${reasons.length} offers of the target can be accepted; details.offers says why.`;
  return new PurserError('no_acceptable_offer', message, { details });
}
