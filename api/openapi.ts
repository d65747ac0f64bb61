import { z } from 'zod';
import {
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiOverrideContext,
  type ZodOpenApiResponsesObject,
} from 'zod-openapi';
import { type ErrorCode, errorCodes, PurserError } from '../shared/errors.ts';
import { type Endpoint, pathParameters } from './endpoint.ts';
import { maxKeyLength } from './idempotency-key.ts';
import { linesType } from './lines.ts';
import { renderError } from './render/error.ts';
import { errorObject } from './schemas/error.ts';
import { limitHeaders } from './schemas/limit-headers.ts';

/** What every endpoint may answer, beside its own. */
const commonErrors = [
  'authentication_failed',
  'insufficient_permissions',
  'method_not_allowed',
  'rate_limit_exceeded',
  'server_error',
  'service_unavailable',
] as const satisfies readonly ErrorCode[];

const statusDescriptions: Readonly<Record<number, string>> = {
  400: 'The request cannot be carried out as it is. `message` and `param` say what to change.',
  401: 'The API key or the token is missing, not valid, expired, deleted, or of the other environment.',
  403: 'Whoever asks may not do this.',
  404: 'There is no such thing in this account; the same answer for what belongs to another account.',
  405: 'The path does not have this method. `Allow` lists those it has.',
  409: 'It stands otherwise than the request supposes: decided before, gone too far, or the Idempotency-Key belongs to another request or to one that is still at work (`Retry-After`).',
  429: 'Too many requests, or too many refused credentials from this address. After the seconds of `Retry-After` one passes.',
  500: 'A fault of ours. Tell the operator the `request_id`.',
  503: 'Something that we depend on is down. Wait the seconds of `Retry-After`.',
};

const exampleMessages: Readonly<Record<ErrorCode, string>> = {
  invalid_request: 'agent_name is required.',
  policy_violation: '250 USDC breaks max_transaction_amount 100 of policy pol_01kahvd1r0fv2t5c7m4y2q8s3z.',
  insufficient_funds: 'The wallet holds 5 USDC; 12.5 USDC were to be sent.',
  agent_inactive: 'Agent agent_01kahvd1r0fv2t5c7m4y2q8s3z is inactive: it sends nothing until it is active again.',
  invalid_chain: 'chain "eip155:5" is not served here. Served are: eip155:31337.',
  invalid_token: 'token "WETH" is not known on eip155:31337. Known are: ETH, USDC.',
  invalid_address: 'to_address has a wrong checksum (EIP-55): a digit is mistyped. Copy it again.',
  invalid_amount: 'amount has more fraction digits than USDC has (6). Nothing is rounded.',
  session_expired: 'Session sess_01kahvd1r0fv2t5c7m4y2q8s3z expired at 2026-03-01T13:00:00.000Z.',
  budget_exceeded: '0.3 USDC with the fee are more than the 0.25 USDC that are left of the budget.',
  url_not_allowed: 'target_url https://api.example.org/data is not among allowed_urls of the session.',
  payment_not_required: 'The target answered 200 without asking for a payment.',
  no_acceptable_offer: 'None of the 2 offers of the target can be accepted; details.offers says why.',
  target_unreachable: 'The target could not be asked: its name does not resolve.',
  approval_timeout: 'Approval apr_01kahvd1r0fv2t5c7m4y2q8s3z expired at 2026-03-01T13:00:00.000Z.',
  authentication_failed: 'Send an API key in the header X-API-Key, or an access token as Authorization: Bearer.',
  insufficient_permissions: 'carol@example.com is not asked to approve apr_01kahvd1r0fv2t5c7m4y2q8s3z.',
  resource_not_found: 'There is no "agent_01kahvd1r0fv2t5c7m4y2q8s3z" in this account.',
  method_not_allowed: 'This path has GET, HEAD, POST only.',
  approval_already_decided:
    'Approval apr_01kahvd1r0fv2t5c7m4y2q8s3z is rejected already: by ops@example.com at 2026-03-01T12:30:00.000Z.',
  transaction_not_cancellable:
    'Transaction tx_01kahvd1r0fv2t5c7m4y2q8s3z is confirmed: it cannot be cancelled any more.',
  transaction_not_replaceable:
    'Transaction tx_01kahvd1r0fv2t5c7m4y2q8s3z has not been sent yet: there is nothing to speed up.',
  idempotency_key_conflict:
    'Idempotency-Key "order-1042" was used here for another request: the body differs, or who decides. Send the same body, or another key.',
  idempotency_key_in_progress:
    'The first request with Idempotency-Key "order-1042" is still at work. Repeat this one for its answer.',
  rate_limit_exceeded:
    'API key key_01kahvd1r0fv2t5c7m4y2q8s3z may make 60 requests in any 60 seconds on the starter plan. Retry after 12 seconds.',
  server_error: 'Something failed on our side. Tell the operator the request_id.',
  service_unavailable:
    'The database cannot be reached. Try again; if this was to change something, look first whether it did.',
};

const denial = {
  transaction_id: 'tx_01kahvd1r0fv2t5c7m4y2q8s3z',
  policy_id: 'pol_01kahvd1r0fv2t5c7m4y2q8s3z',
  policy_type: 'spending_limit',
  rule: 'max_transaction_amount',
  limit: '100',
  attempted: '250',
  used: null,
  remaining: null,
  token: 'USDC',
  resets_at: null,
};

const question = {
  approval_id: 'apr_01kahvd1r0fv2t5c7m4y2q8s3z',
  transaction_id: denial.transaction_id,
  expires_at: '2026-03-01T13:00:00.000Z',
};

const exampleFacts: Partial<Record<ErrorCode, { param?: string; details?: Record<string, unknown> }>> = {
  invalid_request: { param: 'agent_name' },
  policy_violation: { details: { ...denial, violations: [denial] } },
  insufficient_funds: { details: { transaction_id: denial.transaction_id, attempted: '12.5', token: 'USDC' } },
  agent_inactive: { param: 'agent_id' },
  invalid_chain: { param: 'chain' },
  invalid_token: { param: 'token' },
  invalid_address: { param: 'to_address' },
  invalid_amount: { param: 'amount' },
  session_expired: { details: { session_id: 'sess_01kahvd1r0fv2t5c7m4y2q8s3z', status: 'expired' } },
  budget_exceeded: {
    details: {
      session_id: 'sess_01kahvd1r0fv2t5c7m4y2q8s3z',
      attempted: '0.3',
      fee_amount: '0',
      remaining: '0.25',
      token: 'USDC',
    },
  },
  url_not_allowed: {
    param: 'target_url',
    details: { session_id: 'sess_01kahvd1r0fv2t5c7m4y2q8s3z', allowed_urls: ['https://api.example.org/v1'] },
  },
  payment_not_required: { details: { status: 200 } },
  no_acceptable_offer: {
    details: {
      offers: [
        { index: 0, reason: 'network "eip155:137" is not eip155:31337' },
        { index: 1, reason: 'maxTimeoutSeconds 31536000 is more than a day' },
      ],
    },
  },
  target_unreachable: { details: { reason: 'dns_error' } },
  approval_timeout: { details: { ...question, status: 'expired', decisions: [], decided_at: null } },
  approval_already_decided: {
    details: {
      ...question,
      status: 'rejected',
      decisions: [{ approver: 'ops@example.com', decision: 'rejected', decided_at: '2026-03-01T12:30:00.000Z' }],
      decided_at: '2026-03-01T12:30:00.000Z',
    },
  },
};

const requestId = z.string().meta({
  header: { id: 'X-Request-Id' },
  description: 'Names this request in our logs. Send your own (1 to 128 of A-Z a-z 0-9 . _ -) to have it kept.',
});
const retryAfter = z
  .int()
  .min(1)
  .meta({
    header: { id: 'Retry-After' },
    description: 'Whole seconds after which to repeat.',
  });
const authenticateHeader = z.string().meta({
  header: { id: 'WWW-Authenticate' },
  description: 'What is accepted, and for a token what is wrong with it (RFC 6750).',
});
const allow = z.string().meta({ header: { id: 'Allow' }, description: 'Methods that the path has.' });

const replayed = z.literal('true').meta({
  header: { id: 'Idempotent-Replayed' },
  description:
    'Set on an answer that was made for an earlier request with the same Idempotency-Key: nothing was done again.',
});
const key = z
  .string()
  .min(1)
  .max(maxKeyLength)
  .regex(/^[\x20-\x7e]+$/)
  .optional();
const alias = { description: 'The same as Idempotency-Key. Both with different values: 400.' };
const keyParameters = z.object({
  'Idempotency-Key': key.meta({
    description:
      'Makes a repeat harmless: the same key with the same body on the same path gets the first answer again, and does nothing. With another body: 409. Refusals before anything was stored, and 5xx, are not kept. Kept for 24 h; for payments as long as the payment. 1 to 255 printable ASCII characters; a UUID is a good key.',
    example: '6f1c0c9e-3d0b-4f7e-9a51-2b8c6a7d4e10',
  }),
  'X-Idempotency-Key': key.meta(alias),
});
/** Of a POST whose answer holds a secret. */
const secretKeyParameters = z.object({
  'Idempotency-Key': key.meta({
    description:
      'Makes a repeat harmless: the same key again is refused with 409, for the answer holds a secret, which is given once and kept nowhere. Kept for 24 h. 1 to 255 printable ASCII characters; a UUID is a good key.',
    example: '0d6b6c1e-58c7-4b0c-8a4e-6a1d0f9f3c52',
  }),
  'X-Idempotency-Key': key.meta(alias),
});
/** What a POST may answer by its key. */
const keyErrors = ['idempotency_key_conflict', 'idempotency_key_in_progress'] as const satisfies readonly ErrorCode[];
const secretKeyErrors = ['idempotency_key_conflict'] as const satisfies readonly ErrorCode[];

/** The reference of everything that is mounted, made from the very schemas that validate. */
export function createOpenApiDocument({ endpoints, version }: { endpoints: readonly Endpoint[]; version: string }) {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {};
  for (const endpoint of endpoints) {
    const path = `/api/v1${endpoint.path}`;
    paths[path] = { ...paths[path], [endpoint.method]: operation(endpoint) };
  }
  const description: ZodOpenApiObject = {
    openapi: '3.1.0',
    info: {
      title: 'Purser',
      version,
      description:
        'Wallets for AI agents that can pay, safely. Amounts are decimal strings and are never rounded; timestamps are UTC with milliseconds; identifiers are opaque. Members and query parameters that are not listed here are refused. Every error is the same object: `code` for programs, `message` for people, `param` for the member at fault.',
    },
    servers: [{ url: '/', description: 'This installation' }],
    security: [{ apiKey: [] }, { accessToken: [] }],
    tags: [
      { name: 'Agents', description: 'An agent has one wallet.' },
      { name: 'Transactions', description: 'Payments out of an agent’s wallet.' },
      { name: 'Approvals', description: 'Questions to people: payments that wait until somebody agrees.' },
      { name: 'x402', description: 'Budgets out of which an agent pays web APIs (HTTP 402).' },
      { name: 'Policies', description: 'What an agent may send.' },
      { name: 'Policy templates', description: 'Sets of policies to copy to agents.' },
      { name: 'Audit log', description: 'Who did what: a chain of entries, of which none can be changed unseen.' },
      { name: 'Webhooks', description: 'Receivers of events, and what they were sent.' },
      { name: 'Sign-in', description: 'People, and the tokens by which they prove who they are.' },
      { name: 'Events', description: 'Everything that has happened.' },
      { name: 'API keys', description: 'Credentials of programs; people make and delete them.' },
      { name: 'Account', description: 'Plan, settings and people of the account.' },
    ],
    paths,
    components: {
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'X-API-Key',
          description: 'A key of this environment: `purser_test_…` in sandbox, `purser_live_…` in production.',
        },
        accessToken: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description:
            'An access token of a person who is signed in. An API key beside it must be of the same account.',
        },
      },
    },
  };
  return createDocument(description, { override: leaveAnswersOpen });
}

/** Within a version members may be added to answers, so that a client must not refuse those it does not know. */
function leaveAnswersOpen({ jsonSchema, io }: ZodOpenApiOverrideContext): void {
  if (io === 'output' && jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
}

/** Stated where it differs from the document's. */
function securityOf({ access }: Endpoint): Pick<ZodOpenApiOperationObject, 'security'> {
  if (access.by === 'anybody') return { security: [] };
  return access.scope === null ? { security: [{ accessToken: [] }] } : {};
}

/** Who may, as the table says it. */
function whoMay({ access }: Endpoint): string {
  if (access.by === 'anybody') return 'Needs no credential.';
  const { role, scope, agentKeys } = access;
  if (scope === null) return `Needs an access token of a person whose role is ${role} or more.`;
  const ofAgent = agentKeys ? 'a key of an agent may, within what is its own' : 'a key of an agent may not';
  return `Needs the scope \`${scope}\`, or a person whose role is ${role} or more; ${ofAgent}.`;
}

function operation(endpoint: Endpoint): ZodOpenApiOperationObject {
  const { operationId, tag, summary, query, body, answer } = endpoint;
  const description = `${endpoint.description} ${whoMay(endpoint)}`;
  const isBodyRequired = !endpoint.bodyOptional;
  const isPost = endpoint.method === 'post';
  const isReplayed = isPost && !endpoint.isAnswerSecret;
  const isLimited = endpoint.access.by !== 'anybody';
  const header = endpoint.isAnswerSecret ? secretKeyParameters : keyParameters;
  const ofKey = isReplayed ? keyErrors : isPost ? secretKeyErrors : [];
  const names = pathParameters(endpoint.path).map((name) => [name, z.string().meta({ description: 'Identifier.' })]);
  const path = names.length > 0 ? { path: z.object(Object.fromEntries(names)) } : {};
  return {
    operationId,
    tags: [tag],
    summary,
    description,
    ...securityOf(endpoint),
    requestParams: { ...path, query: query as z.ZodObject, ...(isPost && { header }) },
    ...(body && { requestBody: { required: isBodyRequired, content: { 'application/json': { schema: body } } } }),
    responses: {
      200: {
        description: 'Done.',
        headers: z.object({
          'X-Request-Id': requestId,
          ...(isLimited && limitHeaders),
          ...(isReplayed && { 'Idempotent-Replayed': replayed.optional() }),
        }),
        content: { [endpoint.inLines ? linesType : 'application/json']: { schema: answer } },
      },
      ...errorResponses([...endpoint.errors, ...ofKey, ...commonErrors], { isReplayed, isLimited }),
    },
  };
}

function errorResponses(
  codes: readonly ErrorCode[],
  { isReplayed, isLimited }: { isReplayed: boolean; isLimited: boolean },
): ZodOpenApiResponsesObject {
  const byStatus = Map.groupBy(codes, (code) => errorCodes[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, group]) => [
      status,
      {
        description: statusDescriptions[status]!,
        headers: z.object({
          'X-Request-Id': requestId,
          ...(isLimited && status !== 401 && limitHeaders),
          ...((status === 429 || status === 503) && { 'Retry-After': retryAfter }),
          ...(group.includes('idempotency_key_in_progress') && { 'Retry-After': retryAfter.optional() }),
          // A denial is kept, and given again.
          ...(isReplayed && status === 400 && { 'Idempotent-Replayed': replayed.optional() }),
          ...(status === 401 && { 'WWW-Authenticate': authenticateHeader }),
          ...(status === 405 && { Allow: allow }),
        }),
        content: {
          'application/json': {
            schema: errorObject,
            examples: Object.fromEntries(group.map((code) => [code, { value: exampleOf(code) }])),
          },
        },
      },
    ]),
  ) as ZodOpenApiResponsesObject;
}

function exampleOf(code: ErrorCode) {
  const error = new PurserError(code, exampleMessages[code], exampleFacts[code]);
  return JSON.parse(
    JSON.stringify(renderError(error, { requestId: '0b1d9f0e-6c1f-4f2d-9d3c-0b7f7c4b8a11' })),
  ) as unknown;
}
