import express, { type Express } from 'express';
import helmet from 'helmet';
import type { Registry } from '../shared/chain/registry.ts';
import type { FeeTier } from '../shared/domain/x402-fee.ts';
import { PurserError } from '../shared/errors.ts';
import type { Installation } from '../shared/installation.ts';
import type { Logger } from '../shared/log.ts';
import type { Tracing } from '../shared/tracing/tracing.ts';
import type { SealSecret } from '../shared/webhook-secrets.ts';
import { createDenialLog } from './denial-log.ts';
import type { Endpoint } from './endpoint.ts';
import { createAnswerOnce } from './idempotency.ts';
import { accessLog } from './middleware/access-log.ts';
import { answerError } from './middleware/answer-error.ts';
import { type AuthenticateDependencies, createAuthenticate } from './middleware/authenticate.ts';
import { createCors } from './middleware/cors.ts';
import { createIpAllowlist } from './middleware/ip-allowlist.ts';
import { createLimitRefusals } from './middleware/limit-refusals.ts';
import { createLimitRequests } from './middleware/limit-requests.ts';
import type { RequestMeasures } from './middleware/measure-requests.ts';
import { createRequestId } from './middleware/request-id.ts';
import { createRequireDatabase } from './middleware/require-database.ts';
import { createTraceRequests } from './middleware/trace-requests.ts';
import { createOpenApiDocument } from './openapi.ts';
import type { Fund } from './operations/fund-wallet.ts';
import { createAccountEndpoints } from './routes/account.ts';
import { createAgentEndpoints } from './routes/agents.ts';
import { createApiKeyEndpoints } from './routes/api-keys.ts';
import { createApprovalPageRouter } from './routes/approval-page.ts';
import { createApprovalEndpoints } from './routes/approvals.ts';
import { createAuditLogEndpoints } from './routes/audit-logs.ts';
import { createAuthTokenEndpoints } from './routes/auth-tokens.ts';
import { createDeliveryEndpoints } from './routes/deliveries.ts';
import { createDocsRouter } from './routes/docs.ts';
import { createEventEndpoints } from './routes/events.ts';
import { createExchangeEndpoint } from './routes/exchange.ts';
import { createHealthRouter } from './routes/health.ts';
import { createMemberEndpoints } from './routes/members.ts';
import { createPolicyEndpoints } from './routes/policies.ts';
import { createResourceRouter } from './routes/resources.ts';
import { createSignInRouter, type SignInSettings } from './routes/sign-in.ts';
import { createTemplateEndpoints } from './routes/templates.ts';
import { createTransactionEndpoints } from './routes/transactions.ts';
import { createWebhookEndpoints } from './routes/webhooks.ts';
import { createWellKnownRouter } from './routes/well-known.ts';
import { createX402Endpoints } from './routes/x402.ts';
import { createX402EdgeEndpoints } from './routes/x402-edge.ts';
import type { TemporalGateway } from './temporal-gateway.ts';
import type { Probe } from './x402/probe.ts';

/** Version of the interface, not of the program. */
const interfaceVersion = '1.0.0';

export interface AppDependencies extends AuthenticateDependencies {
  /** Whether the process may work with its database and its Temporal. */
  readonly installation: Installation;
  readonly temporal: TemporalGateway;
  readonly registry: Registry;
  readonly log: Logger;
  /** Traces of requests; undefined: none are kept. */
  readonly tracing?: Tracing | undefined;
  /** What is measured of requests; undefined: nothing is. */
  readonly measures?: RequestMeasures | undefined;
  /** Asks x402 targets what they want. */
  readonly probe: Probe;
  /** Fees of x402 payments. */
  readonly feeTiers: readonly FeeTier[];
  /** Whether x402 targets and webhooks on this machine may be named; sandbox only. */
  readonly allowLoopback: boolean;
  /** Seals secrets of webhooks to the workers that deliver. */
  readonly sealSecret: SealSecret;
  /** Networks of the proxies whose word for the client's address is taken (X-Forwarded-For); none: nobody's. */
  readonly trustedProxies: readonly string[];
  /** Origins whose pages may use the api; none: nobody's. */
  readonly corsOrigins: readonly string[];
  /** Credentials that are refused for one address before it is told to wait. */
  readonly failedAuthPerMinute: number;
  /** How people sign in; undefined where no identity provider is configured. */
  readonly signIn: SignInSettings | undefined;
  /** Gives new wallets on local chains their first coins; sandbox only. */
  readonly fund?: Fund | undefined;
}

/** The HTTP edge, complete but for the socket that it listens on. */
export function createApp(deps: AppDependencies): Express {
  const { pool, temporal, log } = deps;
  const endpoints = [
    ...createAgentEndpoints(deps),
    ...createTransactionEndpoints(deps),
    ...createApprovalEndpoints(deps),
    ...createX402Endpoints(deps),
    ...createX402EdgeEndpoints(deps),
    ...createPolicyEndpoints(deps),
    ...createTemplateEndpoints(deps),
    ...createAuditLogEndpoints(deps),
    ...createWebhookEndpoints(deps),
    ...createDeliveryEndpoints(deps),
    createExchangeEndpoint(deps),
    ...createAuthTokenEndpoints(deps),
    ...createApiKeyEndpoints(deps),
    ...createAccountEndpoints(deps),
    ...createMemberEndpoints(deps),
    ...createEventEndpoints({ pool, livemode: deps.environment === 'production' }),
  ];
  const app = express();
  app.disable('x-powered-by');
  app.set('etag', false);
  app.set('query parser', false);
  app.set('case sensitive routing', true);
  app.set('trust proxy', [...deps.trustedProxies]);
  if (deps.measures) app.use(deps.measures.measureRequest);
  app.use(createRequestId({ log }), createTraceRequests(deps), accessLog, securityHeaders());
  app.use(createHealthRouter(deps));
  app.use(createDocsRouter({ document: createOpenApiDocument({ endpoints, version: interfaceVersion }) }));
  app.use(['/api/v1', '/.well-known'], createCors({ origins: deps.corsOrigins }));
  app.use(['/api/v1', '/auth', '/approve'], createRequireDatabase(deps));
  app.use(createWellKnownRouter(deps));
  app.use(createApprovalPageRouter({ pool, tellAnswer: temporal.tellAnswer, registry: deps.registry }));
  app.use(createSignInRouter(deps));
  app.use('/api', (_request, response, next) => {
    response.setHeader('Cache-Control', 'no-store');
    next();
  });
  const answerOnce = createAnswerOnce({ pool, decisionWaitMs: temporal.decisionWaitMs });
  const noteDenial = createDenialLog({ pool });
  const [open, guarded] = [true, false].map((isOpen) =>
    endpoints.filter(({ access }) => (access.by === 'anybody') === isOpen),
  ) as [Endpoint[], Endpoint[]];
  app.use('/api/v1', createResourceRouter({ endpoints: open, answerOnce, noteDenial }));
  app.use(
    '/api/v1',
    createAuthenticate({ ...deps, noteDenial }),
    createIpAllowlist({ noteDenial }),
    createLimitRequests(deps),
  );
  app.use('/api/v1', createResourceRouter({ endpoints: guarded, answerOnce, noteDenial }));
  app.use((request) => {
    throw new PurserError('resource_not_found', `There is nothing at ${request.path}. The reference is at /docs.`);
  });
  app.use(createLimitRefusals(deps), answerError);
  return app;
}

/** JSON answers need nothing from a browser, so it is told to allow nothing; the reference states its own policy. */
function securityHeaders() {
  return helmet({
    contentSecurityPolicy: { useDefaults: false, directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] } },
    crossOriginResourcePolicy: { policy: 'same-origin' },
  });
}
