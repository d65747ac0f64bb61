import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Configuration, errors, interactionPolicy, Provider } from 'oidc-provider';
import { freePort, LOOPBACK } from './ports.ts';
import type { ProviderKeys } from './provider-keys.ts';
import { choosePage, providerMessage, providerPolicy } from './provider-pages.ts';
import { createProviderStore } from './provider-store.ts';

/** Names under which a browser of this machine reaches us. Any other is somebody's domain that points here. */
const loopbackHost = /^(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?$/i;
/** Of the form that chooses a person. */
const maxFormBytes = 1024;
const ttlSeconds = 3600;

/** Somebody who can sign in, with their claims (OpenID Connect Core, 5.1). */
export interface ProviderUser {
  readonly sub: string;
  readonly email: string;
  readonly email_verified?: boolean | string;
  readonly name: string;
}

export interface ProviderOptions {
  /** 0 takes any free one. */
  readonly port: number;
  /** By which browsers reach it. */
  readonly hostname?: string;
  readonly keys: ProviderKeys;
  /** Read anew at each sign-in. */
  readonly users: () => readonly ProviderUser[];
  readonly clientId: string;
  /** Where it sends people back to. */
  readonly redirectUri: string;
  /** More of oidc-provider's settings. */
  readonly settings?: Configuration;
  /** Called before it serves, to put something around what it does. */
  readonly prepare?: (provider: Provider) => void;
}

/** An identity provider on this machine. */
export interface LocalProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  stop(): Promise<void>;
}

/** A real OpenID Connect provider on the loopback interface, where people are chosen from a list. For development. */
export async function startProvider(options: ProviderOptions): Promise<LocalProvider> {
  const { keys, clientId, hostname = LOOPBACK } = options;
  const port = options.port === 0 ? await freePort() : options.port;
  const issuer = `http://${hostname}:${port}`;
  const provider = new Provider(issuer, configurationOf(options));
  options.prepare?.(provider);
  const protocol = provider.callback();
  const server = createServer((request, response) => {
    setHeaders(response);
    if (!loopbackHost.test(request.headers.host ?? ''))
      return void sendMessage({ request, response }, 403, 'This is for the machine on which it runs: use 127.0.0.1.');
    if (!request.url?.startsWith('/interaction/')) return void protocol(request, response);
    choose(provider, { users: options.users(), request, response }).catch((error: Error) => {
      if (response.headersSent) return void response.destroy();
      const isOver = error instanceof errors.SessionNotFound;
      const sentence = isOver ? 'This sign-in is over. Begin another one.' : error.message;
      sendMessage({ request, response }, isOver ? 400 : 500, sentence);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, LOOPBACK, resolve);
  });
  return {
    issuer: `http://${hostname}:${(server.address() as AddressInfo).port}`,
    clientId,
    clientSecret: keys.clientSecret,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function configurationOf({ keys, users, clientId, redirectUri, settings }: ProviderOptions): Configuration {
  const policy = interactionPolicy.base();
  policy
    .get('login')
    ?.checks.add(
      new interactionPolicy.Check('choose', 'somebody is chosen at each sign-in', ({ oidc }) => !oidc.result?.login),
    );
  return {
    adapter: createProviderStore(),
    jwks: { keys: [keys.signingKey] as NonNullable<Configuration['jwks']>['keys'] },
    cookies: { keys: [keys.cookieKey] },
    clients: [{ client_id: clientId, client_secret: keys.clientSecret, redirect_uris: [redirectUri] }],
    claims: { email: ['email', 'email_verified'], profile: ['name'] },
    features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: false } },
    interactions: { policy, url: (_context, { uid }) => `/interaction/${uid}` },
    pkce: { required: () => true },
    ttl: {
      AccessToken: ttlSeconds,
      AuthorizationCode: 60,
      Grant: ttlSeconds,
      IdToken: ttlSeconds,
      Interaction: ttlSeconds,
      Session: ttlSeconds,
    },
    async findAccount(_context, sub) {
      const user = users().find((each) => each.sub === sub);
      return user && { accountId: sub, claims: async () => ({ ...user }) };
    },
    // The only client is ours, and everybody lets it know what it asks for.
    async loadExistingGrant({ oidc }) {
      const grant = new oidc.provider.Grant({
        clientId: oidc.client!.clientId,
        accountId: oidc.session!.accountId!,
      });
      grant.addOIDCScope(String(oidc.params!.scope));
      await grant.save();
      return grant;
    },
    renderError(context, out) {
      context.type = 'html';
      context.body = providerMessage(`${out.error}: ${out.error_description ?? 'no more is known.'}`);
    },
    ...settings,
  };
}

function setHeaders(response: ServerResponse): void {
  response.setHeader('Content-Security-Policy', providerPolicy);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Referrer-Policy', 'no-referrer');
}

interface Choosing {
  readonly users: readonly ProviderUser[];
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** The page that asks who signs in, and its answer. @throws SessionNotFound */
async function choose(provider: Provider, { users, request, response }: Choosing): Promise<void> {
  await provider.interactionDetails(request, response);
  if (request.method !== 'POST') return sendHtml(response, 200, choosePage(users));
  const email = new URLSearchParams(await readForm(request)).get('user') ?? '';
  const user = users.find((each) => each.email === email);
  if (email !== '' && !user) {
    const known = users.map((each) => each.email).join(', ');
    return sendMessage({ request, response }, 400, `${email} is none of the people here: ${known}.`);
  }
  const result = user
    ? { login: { accountId: user.sub } }
    : { error: 'access_denied', error_description: 'Nobody was chosen.' };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

async function readForm(request: IncomingMessage): Promise<string> {
  let form = '';
  for await (const chunk of request.setEncoding('utf8')) {
    form += String(chunk);
    if (form.length > maxFormBytes) throw new Error('The form is too long.');
  }
  return form;
}

/** A page for people; JSON for programs that ask for it. */
function sendMessage({ request, response }: Omit<Choosing, 'users'>, status: number, message: string): void {
  if (!request.headers.accept?.includes('application/json')) {
    sendHtml(response, status, providerMessage(message));
    return;
  }
  response.writeHead(status, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify({ message }));
}

function sendHtml(response: ServerResponse, status: number, page: string): void {
  response.writeHead(status, { 'Content-Type': 'text/html; charset=utf-8', 'Cache-Control': 'no-store' });
  response.end(page);
}
