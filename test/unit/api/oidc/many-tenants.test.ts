import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { beginSignIn } from '../../../../api/oidc/pending-sign-in.ts';
import { createProviderClient } from '../../../../api/oidc/provider-client.ts';
import { createLogger } from '../../../../shared/log.ts';

const origin = 'https://login.microsoftonline.com';
const tid = '11111111-2222-3333-4444-555555555555';
const issuerOfTenant = `${origin}/${tid}/v2.0`;

afterEach(() => {
  vi.unstubAllGlobals();
});

/** A double of Entra ID, which no test can ask: its answers for people of one tenant, or of every one that there is. */
async function standIn({ published, nonce, email }: { published: string; nonce: string; email: string }) {
  const { privateKey, publicKey } = await generateKeyPair('RS256');
  const idToken = await new SignJWT({ nonce, email, tid, name: 'Mallory' })
    .setProtectedHeader({ alg: 'RS256', kid: 'k' })
    .setIssuer(issuerOfTenant)
    .setAudience('client')
    .setSubject('somebody')
    .setIssuedAt()
    .setExpirationTime('1h')
    .sign(privateKey);
  const answers: Record<string, unknown> = {
    '/.well-known/openid-configuration': {
      issuer: published,
      authorization_endpoint: `${origin}/authorize`,
      token_endpoint: `${origin}/token`,
      jwks_uri: `${origin}/keys`,
    },
    '/token': { access_token: 'a', token_type: 'Bearer', id_token: idToken },
    '/keys': { keys: [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'RS256' }] },
  };
  vi.stubGlobal('fetch', async (url: string | URL) => {
    const path = Object.keys(answers).find((each) => String(url).endsWith(each));
    return path ? Response.json(answers[path]) : new Response(null, { status: 404 });
  });
}

async function signInAt({ issuer, published }: { issuer: string; published: string }) {
  const email = 'victim@example.com';
  const pending = beginSignIn({ accountId: undefined, now: new Date() });
  await standIn({ published, nonce: pending.nonce, email });
  const client = createProviderClient(
    { issuer, clientId: 'client', clientSecret: 'secret', scopes: 'openid email', trustsEmail: true },
    { redirectUri: 'https://purser.test/auth/oidc/callback', log: createLogger({ process: 'test', level: 'silent' }) },
  );
  return client.identify(new URLSearchParams({ code: 'c', state: pending.state }), pending);
}

describe('a provider that says nothing of addresses, and is trusted to know its people', () => {
  it('is believed about those of its one tenant', async () => {
    const person = await signInAt({ issuer: issuerOfTenant, published: issuerOfTenant });
    expect(person).toEqual({
      issuer: issuerOfTenant,
      subject: 'somebody',
      email: 'victim@example.com',
      name: 'Mallory',
    });
  });

  it.each(['common', 'organizations'])(
    'is believed about nobody where it speaks for everybody’s tenants (%s): each may write there what it likes',
    async (tenants) => {
      const person = await signInAt({
        issuer: `${origin}/${tenants}/v2.0`,
        published: `${origin}/{tenantid}/v2.0`,
      });
      expect(person).toMatchObject({ issuer: issuerOfTenant, subject: 'somebody', email: null });
    },
  );
});
