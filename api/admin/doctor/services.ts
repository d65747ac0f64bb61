import { createTransport } from 'nodemailer';
import { isLoopback } from '../../../shared/domain/loopback.ts';
import type { SmtpServer } from '../../../shared/mail-settings.ts';
import { redirectUriOf } from '../../routes/sign-in.ts';
import { type Finding, look, lookMs, notChecked, ok, wrong } from './finding.ts';

/** The mail server, up to the point where a mail would be handed over: none is. */
export async function checkMail(
  server: SmtpServer | undefined,
  { mustEncrypt }: { mustEncrypt: boolean },
): Promise<Finding> {
  const check = 'mail server';
  if (!server) return notChecked(check, 'PURSER_SMTP_URL');
  const { host, port, secure, auth } = server;
  return look(check, 'Check PURSER_SMTP_URL: host, port, user and password.', async () => {
    const isLocal = isLoopback(host);
    const transport = createTransport({
      ...{ host, port, secure, ...(auth && { auth: { ...auth } }) },
      requireTLS: mustEncrypt && !secure && !isLocal,
      ignoreTLS: isLocal && !secure,
      tls: { minVersion: 'TLSv1.2' },
      ...{ dnsTimeout: lookMs, connectionTimeout: lookMs, greetingTimeout: lookMs, socketTimeout: lookMs },
    });
    try {
      await transport.verify();
      return ok(check, `${host}:${port} ${auth ? 'takes our user and password' : 'answers'}`);
    } finally {
      transport.close();
    }
  });
}

/** The identity provider: what it publishes of itself, and its keys. */
export async function checkProvider(p: {
  issuer: string | undefined;
  publicUrl: string | undefined;
}): Promise<Finding> {
  const { issuer, publicUrl } = p;
  const check = 'identity provider';
  if (issuer === undefined) return notChecked(check, 'PURSER_OIDC_ISSUER');
  return look(check, 'Check PURSER_OIDC_ISSUER: the URL before /.well-known/openid-configuration.', async () => {
    const configuration = await getJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
    if (configuration.issuer !== issuer)
      return wrong(check, `it calls itself ${String(configuration.issuer)}. Set PURSER_OIDC_ISSUER to exactly that.`);
    const { keys } = await getJson(String(configuration.jwks_uri));
    if (!Array.isArray(keys) || keys.length === 0)
      return wrong(check, 'it publishes no keys (jwks_uri). Ask whoever runs it.');
    const redirect = publicUrl === undefined ? '' : `; it must know the redirect URI ${redirectUriOf({ publicUrl })}`;
    return ok(check, `${issuer} publishes ${keys.length} keys${redirect}`);
  });
}

async function getJson(url: string): Promise<Record<string, unknown>> {
  const response = await fetch(url, { signal: AbortSignal.timeout(lookMs) });
  if (!response.ok) throw new Error(`${url} answers HTTP ${response.status}`);
  return (await response.json()) as Record<string, unknown>;
}
