import type { Registry, Token } from '../../shared/chain/registry.ts';
import { formatAmount } from '../../shared/domain/money.ts';
import { PurserError } from '../../shared/errors.ts';
import type { CheckBody } from '../schemas/x402-edge.ts';
import { judgeOffer, quoted, readOfferAddress } from '../x402/choose-offer.ts';
import type { Probe } from '../x402/probe.ts';
import type { Offer, PaymentRequired } from '../x402/read-offers.ts';
import { requireTargetUrl } from '../x402/require-target-url.ts';

export interface CheckTargetDependencies {
  readonly registry: Registry;
  readonly probe: Probe;
  /** Whether targets on this machine may be named. */
  readonly allowLoopback: boolean;
}

/** Says what a target wants for a request; nothing is stored or paid. @throws PurserError 400 `target_unreachable` */
export async function checkTarget(
  { probe, registry, allowLoopback }: CheckTargetDependencies,
  { url: written, method, headers = {}, body }: CheckBody,
) {
  const url = requireTargetUrl(written, { param: 'url', allowLoopback });
  try {
    const required = await probe({ url, method, headers, body });
    const offers = required.offers.map((offer) => renderOffer(offer, { required, url, registry }));
    return { url, payment_required: true, status: 402, x402_version: required.version, offers };
  } catch (error) {
    if (!(error instanceof PurserError && error.code === 'payment_not_required')) throw error;
    return { url, payment_required: false, status: error.details?.status, x402_version: null, offers: [] };
  }
}

function renderOffer(
  offer: Offer,
  { required, url, registry }: { required: PaymentRequired; url: string; registry: Registry },
) {
  const token = findToken(registry, offer);
  const reason = standsAgainst(offer, { required, url, registry, token });
  return {
    scheme: shortened(offer.scheme),
    network: shortened(offer.network),
    asset: shortened(offer.asset),
    token: token?.symbol ?? null,
    amount: token && /^\d{1,78}$/.test(offer.amount) ? formatAmount(BigInt(offer.amount), token.decimals) : null,
    pay_to: shortened(offer.payTo),
    acceptable: reason === null,
    reason,
  };
}

/** Longer than anything that has a meaning there. */
const longestText = 128;
const shortened = (text: string): string => text.slice(0, longestText).toWellFormed();

function standsAgainst(
  offer: Offer,
  {
    required,
    url: targetUrl,
    registry,
    token,
  }: { required: PaymentRequired; url: string; registry: Registry; token: Token | undefined },
): string | null {
  if (!registry.chain(offer.network)) return `network ${quoted(offer.network)} is not served here`;
  if (!token) return assetFault(offer) ?? `asset ${quoted(offer.asset)} is not known on ${offer.network}`;
  const terms = { required, targetUrl, chain: offer.network, token, walletAddress: undefined, registry };
  const verdict = judgeOffer(offer, terms);
  return 'reason' in verdict ? verdict.reason : null;
}

function findToken(registry: Registry, { network, asset }: Offer): Token | undefined {
  const chain = registry.chain(network);
  const read = chain && readOfferAddress(asset, network);
  return read && 'address' in read ? chain.tokens.find((each) => each.asset === read.address) : undefined;
}

function assetFault({ network, asset }: Offer): string | undefined {
  const read = readOfferAddress(asset, network);
  return 'fault' in read ? `asset ${read.fault}` : undefined;
}
