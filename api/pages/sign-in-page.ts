import type { PurserError } from '../../shared/errors.ts';
import { frame } from './frame.ts';
import { html } from './html.ts';
import { check } from './icons.ts';
import { message } from './message-page.ts';

/**
 * Where a sign-in ends that no console waits for: the code, and how to exchange it.
 * @param publicUrl of the api
 */
export function signedInPage({
  code,
  expiresIn,
  publicUrl,
}: {
  code: string;
  expiresIn: number;
  publicUrl: string;
}): string {
  const command = `curl -s ${publicUrl}/api/v1/auth/exchange -H 'Content-Type: application/json' -d '{"exchange_code":"${code}"}'`;
  const main = html`<div class="card">
<div class="mark yes">${check}</div>
<h1>You are signed in</h1>
<p class="lead">Your code is good for ${expiresIn} seconds, once:</p>
<blockquote><code id="code">${code}</code></blockquote>
<p class="lead">This line exchanges it for an access token and a refresh token:</p>
<blockquote><code id="command">${command}</code></blockquote>
<p class="lead">Whoever has the code can do the same in your place. Show it to nobody.</p>
</div>`;
  return frame({ title: 'You are signed in', main });
}

const headings: Readonly<Record<number, string>> = {
  400: 'This sign-in cannot go on',
  401: 'This sign-in is not valid',
  403: 'You cannot come in',
  404: 'Nobody can sign in here',
  503: 'Nobody can sign in now',
};

/** Why a sign-in did not end well, and where to begin another one. */
export function signInFailedPage(error: PurserError, { startUrl }: { startUrl: string | undefined }): string {
  const again = startUrl === undefined ? [] : [html`<a href="${startUrl}">Sign in again</a>`];
  return message({ heading: headings[error.status] ?? 'You could not be signed in', lead: [error.message, ...again] });
}
