import { decodeJwt, importJWK, type JWTPayload, SignJWT } from 'jose';
import type { Configuration, Provider } from 'oidc-provider';
import { type LocalProvider, type ProviderUser, startProvider } from '../../dev/provider.ts';
import { makeProviderKeys, type ProviderKeys } from '../../dev/provider-keys.ts';

/** A real identity provider for tests, whose people and whose ID tokens a test may change while it runs. */
export interface TestProvider extends LocalProvider {
  /** Who can sign in there. */
  readonly users: ProviderUser[];
  /** Adds somebody, by default with a verified address. @returns their address */
  add(email: string, claims?: Partial<Omit<ProviderUser, 'email'>>): string;
  /** Changes the claims of ID tokens after all of its own checks, or signs them with another key; undefined: nothing. */
  lie: ((claims: JWTPayload) => { claims?: JWTPayload; keys?: ProviderKeys }) | undefined;
  /** Answers its token endpoint with this status and body instead; undefined: as it should. */
  tokenAnswer: { readonly status: number; readonly body: unknown } | undefined;
}

export async function startTestProvider({
  redirectUri,
  hostname,
  settings,
}: {
  redirectUri: string;
  hostname?: string;
  settings?: Configuration;
}): Promise<TestProvider> {
  const keys = await makeProviderKeys();
  const users: ProviderUser[] = [];
  const local = await startProvider({
    port: 0,
    keys,
    users: () => users,
    clientId: 'purser-test',
    redirectUri,
    ...(hostname !== undefined && { hostname }),
    ...(settings && { settings }),
    prepare: (provider) => distort(provider, { keys, wishes: () => test }),
  });
  const test: TestProvider = {
    ...local,
    users,
    lie: undefined,
    tokenAnswer: undefined,
    add(email, claims = {}) {
      const sub = claims.sub ?? `sub of ${email}`;
      users.push({ email_verified: true, name: 'Test', ...claims, sub, email });
      return email;
    },
  };
  return test;
}

function distort(provider: Provider, { keys, wishes }: { keys: ProviderKeys; wishes: () => TestProvider }): void {
  provider.use(async (context, next) => {
    await next();
    if (context.oidc?.route !== 'token') return;
    const { lie, tokenAnswer } = wishes();
    const body = context.body as { id_token?: string };
    if (lie && body.id_token !== undefined) {
      const claims = decodeJwt(body.id_token);
      const told = lie(claims);
      context.body = { ...body, id_token: await sign(told.claims ?? claims, { keys: told.keys ?? keys, of: keys }) };
    }
    if (tokenAnswer) Object.assign(context, tokenAnswer);
  });
}

/** By one key, as if by another. */
async function sign(claims: JWTPayload, { keys, of }: { keys: ProviderKeys; of: ProviderKeys }): Promise<string> {
  return new SignJWT(claims)
    .setProtectedHeader({ alg: 'RS256', kid: of.signingKey.kid! })
    .sign(await importJWK(keys.signingKey, 'RS256'));
}
