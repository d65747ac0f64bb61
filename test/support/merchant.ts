import { x402Facilitator } from '@x402/core/facilitator';
import { type FacilitatorClient, x402ResourceServer } from '@x402/core/server';
import { toFacilitatorEvmSigner } from '@x402/evm';
import { ExactEvmScheme as ExactEvmFacilitator } from '@x402/evm/exact/facilitator';
import { ExactEvmScheme as ExactEvmServer } from '@x402/evm/exact/server';
import { ExactEvmSchemeV1 as ExactEvmFacilitatorV1 } from '@x402/evm/exact/v1/facilitator';
import { EVM_NETWORK_CHAIN_ID_MAP } from '@x402/evm/v1';
import { paymentMiddleware } from '@x402/express';
import express from 'express';
import { type Address, createTestClient, http, parseEther, publicActions, walletActions } from 'viem';
import { generatePrivateKey, nonceManager, privateKeyToAccount, privateKeyToAddress } from 'viem/accounts';
import { anvil } from 'viem/chains';
import { startTarget, type TestTarget } from './target.ts';

const network = 'eip155:31337';
/** The facilitator's network calls time out after this; the local chain mines at once. */
const confirmationTimeoutMs = 10_000;

/** Letters of a description whose echo, with a signature and in base64, fits into a header of any server, or may not. */
const wordy = { some: 7_500, tooMany: 8_500 } as const;

/** A web API that is paid by x402, made of the official packages alone, with the official facilitator on a local chain. */
export interface Merchant extends TestTarget {
  /** Who is paid. */
  readonly payTo: Address;
  /** Times that content was handed out. */
  served(): number;
  /** Minor units that `/moody` wants from now on. */
  setPrice(amount: string): void;
  /** What was asked of `/echo` of late, the payment's header included. */
  readonly seen: { readonly method: string; readonly headers: Record<string, unknown>; readonly body: unknown }[];
}

export async function startMerchant({ rpcUrl, token }: { rpcUrl: string; token: Address }): Promise<Merchant> {
  const payTo = privateKeyToAddress(generatePrivateKey());
  const facilitator = await createFacilitator({ rpcUrl });
  let [served, moody] = [0, '10000'];
  const seen: { method: string; headers: Record<string, unknown>; body: unknown }[] = [];
  const extra = { name: 'USD Coin', version: '2' };
  const offer = (amount: string, changes: object = {}) => ({
    ...{ scheme: 'exact', network, payTo, price: { amount, asset: token, extra }, maxTimeoutSeconds: 60 },
    ...changes,
  });
  const pays = (client: FacilitatorClient, routes: object) =>
    paymentMiddleware(routes as never, new x402ResourceServer(client).register(network, new ExactEvmServer()));

  const app = express().use(express.json());
  // The settlement is done, and the merchant never hears of it.
  const deaf: FacilitatorClient = {
    ...facilitator,
    async settle(payload, requirements) {
      const { transaction } = await facilitator.settle(payload, requirements);
      return { success: false, errorReason: 'settlement_pending', transaction, network };
    },
  };
  app.use(pays(deaf, { 'GET /deaf': { accepts: offer('10000') } }));
  app.use(
    pays(facilitator, {
      'GET /data': { accepts: offer('10000'), description: 'Weather', mimeType: 'application/json' },
      'POST /data': { accepts: offer('10000') },
      'GET /other': { accepts: offer('10000') },
      'GET /fails': { accepts: offer('10000', { maxTimeoutSeconds: 30 }) },
      'GET /moody': {
        accepts: offer('0', { price: () => ({ amount: moody, asset: token, extra }), maxTimeoutSeconds: 120 }),
      },
      'GET /choice': { accepts: [offer('30000'), offer('20000'), offer('10000'), offer('40000')] },
      'GET /wordy': { accepts: offer('10000'), description: 'w'.repeat(wordy.some) },
      'GET /wordier': { accepts: offer('10000'), description: 'w'.repeat(wordy.tooMany) },
      'GET /long': { accepts: offer('10000', { maxTimeoutSeconds: 3_600 }) },
    }),
  );
  app.get('/moved', (_, response) => response.redirect('/data'));
  app.get('/fails', (_, response) => response.status(500).json({ broken: true }));
  app.use(versionOne({ facilitator, offer: { payTo, asset: token, extra } }));
  app.use((request, response) => {
    served += 1;
    seen.push({ method: request.method, headers: { ...request.headers }, body: request.body });
    response.json({ content: request.path, echo: request.body ?? null });
  });
  const target = await startTarget(app);
  return {
    ...target,
    payTo,
    seen,
    served: () => served,
    setPrice(amount) {
      moody = amount;
    },
  };
}

/** The official facilitator, in this process. Its wallet counts its nonces itself: many settle at once. */
async function createFacilitator({ rpcUrl }: { rpcUrl: string }): Promise<FacilitatorClient> {
  const account = privateKeyToAccount(generatePrivateKey(), { nonceManager });
  const wallet = createTestClient({
    mode: 'anvil',
    account,
    chain: anvil,
    transport: http(rpcUrl),
    pollingInterval: 50,
  })
    .extend(publicActions)
    .extend(walletActions);
  await wallet.setBalance({ address: account.address, value: parseEther('100') });
  const signer = toFacilitatorEvmSigner(
    {
      address: account.address,
      readContract: (args) => wallet.readContract({ ...args, args: args.args ?? [] } as never),
      verifyTypedData: (args) => wallet.verifyTypedData(args as never),
      writeContract: (args) => wallet.writeContract({ ...args, args: args.args ?? [] } as never),
      sendTransaction: (args) => wallet.sendTransaction(args as never),
      waitForTransactionReceipt: (args) => wallet.waitForTransactionReceipt(args),
      getCode: (args) => wallet.getCode(args),
    },
    { confirmationTimeoutMs },
  );
  // Version 1 has no name for a local chain.
  (EVM_NETWORK_CHAIN_ID_MAP as Record<string, number>)[network] = anvil.id;
  const facilitator = new x402Facilitator()
    .register(network, new ExactEvmFacilitator(signer))
    .registerV1(network, new ExactEvmFacilitatorV1(signer));
  return {
    verify: (payload, requirements) => facilitator.verify(payload, requirements),
    settle: (payload, requirements) => facilitator.settle(payload, requirements),
    getSupported: async () => facilitator.getSupported() as never,
  };
}

/** `GET /v1` as servers of version 1 of the protocol answer: offers in the body, the payment in `X-PAYMENT`. */
function versionOne({
  facilitator,
  offer,
}: {
  facilitator: FacilitatorClient;
  offer: { payTo: Address; asset: Address; extra: object };
}): express.RequestHandler {
  return async (request, response, next) => {
    if (request.path !== '/v1') return next();
    const requirements = {
      ...{ scheme: 'exact', network, maxAmountRequired: '10000', resource: `http://${request.headers.host}/v1` },
      ...{ description: 'Weather', mimeType: 'application/json', outputSchema: {}, maxTimeoutSeconds: 60, ...offer },
    };
    const refuse = (error: string) => response.status(402).json({ x402Version: 1, accepts: [requirements], error });
    const header = request.get('X-PAYMENT');
    if (header === undefined) return refuse('X-PAYMENT header is required');
    const payload = JSON.parse(Buffer.from(header, 'base64').toString());
    const verified = await facilitator.verify(payload, requirements as never);
    if (!verified.isValid) return refuse(verified.invalidReason ?? 'invalid');
    const settled = await facilitator.settle(payload, requirements as never);
    if (!settled.success) return refuse(settled.errorReason ?? 'not settled');
    response.set('X-PAYMENT-RESPONSE', Buffer.from(JSON.stringify(settled)).toString('base64'));
    next();
  };
}
