import { frame } from '../api/pages/frame.ts';
import { html } from '../api/pages/html.ts';
import { contentSecurityPolicy } from '../api/pages/style.ts';

/** Its form ends at the api, and then at a console, wherever those are: browsers look at that as well. */
export const providerPolicy = contentSecurityPolicy
  .split('; ')
  .filter((directive) => !directive.startsWith('form-action'))
  .join('; ');

/** Chooses who signs in; there are no passwords here. */
export function choosePage(users: readonly { readonly email: string; readonly name: string }[]): string {
  const buttons = users.map(
    ({ email, name }) => html`<button class="yes" name="user" value="${email}">${name}: ${email}</button>
`,
  );
  const main = html`<div class="card">
<h1>Who signs in?</h1>
<p class="lead">This is the identity provider of <code>npm start</code>. It is for development: it lets in whoever chooses one of its people, without a password, and answers on this machine only.</p>
<form method="post">
<div class="buttons">
${buttons}</div>
<div class="buttons">
<button name="user" value="">Nobody</button>
</div>
</form>
</div>`;
  return frame({ title: 'Who signs in?', main });
}

/** A page that says one sentence. */
export function providerMessage(sentence: string): string {
  const main = html`<div class="card">
<h1>Identity provider for development</h1>
<p class="lead">${sentence}</p>
</div>`;
  return frame({ title: 'Identity provider for development', main });
}
