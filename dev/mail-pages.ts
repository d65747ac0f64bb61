import { type Html, html } from '../api/pages/html.ts';
import { findLinks } from './mail-links.ts';
import type { Mail } from './mail-store.ts';

/** Of our own pages: one style sheet, one frame that shows a mail, no script, no form. */
export const pagePolicy = [
  "default-src 'none'",
  "style-src 'self'",
  "frame-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** What a mail's HTML may do wherever it is opened: look, and open links in new tabs. */
const mailSandbox = 'allow-popups allow-popups-to-escape-sandbox';
export const mailPolicy = [
  `sandbox ${mailSandbox}`,
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'self'",
].join('; ');

export const stylePath = '/mailbox.css';
/** The colours are those of the pages for approvers, api/pages/style.ts. */
export const style = `:root {
  color-scheme: light dark;
  --ground: light-dark(#f4f5f7, #0f1216);
  --ink: light-dark(#161a20, #eceff3);
  --muted: light-dark(#57606c, #a3adba);
  --line: light-dark(#e1e4e9, #2a313a);
  --link: light-dark(#1b57b8, #8ab4f8);
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 46rem; padding: 2rem 1rem 4rem;
  background: var(--ground); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.375rem; line-height: 1.25; margin: 0 0 1.5rem; }
h2 { font-size: 1rem; margin: 2rem 0 .5rem; }
a { color: var(--link); text-underline-offset: .15em; }
a:focus-visible { outline: 2px solid currentColor; outline-offset: 3px; }
p, dd { margin: 0; }
nav { margin: 0 0 1.5rem; }
time, dt, .muted { color: var(--muted); font-size: .875rem; }
ul { list-style: none; margin: 0; padding: 0; border-top: 1px solid var(--line); }
li { border-bottom: 1px solid var(--line); padding: .75rem 0; display: grid; gap: .125rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; align-items: baseline; margin: 0 0 1.5rem; }
iframe { display: block; width: 100%; height: 46rem; border: 1px solid var(--line); border-radius: 4px; }
pre { margin: 0; font: .875rem/1.5 ui-monospace, monospace; white-space: pre-wrap; }
`;

/** The list of mails, the newest first. */
export function inboxPage(mails: readonly Mail[]): string {
  const items = mails.map(
    (mail) => html`<li>
<a href="/mails/${mail.id}">${subjectOf(mail)}</a>
<p>To ${mail.to}</p>
${timeElement(mail)}
</li>
`,
  );
  const empty = html`<p>No mail yet. A payment above the threshold of a <code>human_approval</code> policy sends one.</p>`;
  return page({ title: 'Mail of this machine', body: items.length === 0 ? empty : html`<ul>\n${items}</ul>` });
}

/** One mail: from whom to whom, as its HTML shows it, and as text. */
export function mailPage(mail: Mail): string {
  const frame =
    mail.html !== undefined &&
    html`<iframe src="/mails/${mail.id}/html" sandbox="${mailSandbox}" title="The mail as HTML"></iframe>`;
  return page({
    title: subjectOf(mail),
    body: html`<nav><a href="/">All mail</a></nav>
<dl>
<dt>From</dt><dd>${mail.from}</dd>
<dt>To</dt><dd>${mail.to}</dd>
<dt>Received</dt><dd>${timeElement(mail)}</dd>
</dl>
${frame}
<h2>As text</h2>
${mail.text === '' ? html`<p class="muted">This mail has no text part.</p>` : html`<pre>${linkedText(mail.text)}</pre>`}`,
  });
}

/** What the frame shows. Links open outside of it; the first `base` of a page counts, and this one has no address. */
export function mailBody(mailHtml: string): string {
  return `<!doctype html><base target="_blank">${mailHtml}`;
}

/** A page that says one sentence, such as that something is not there. */
export function sentencePage(sentence: string): string {
  return page({ title: 'Mail of this machine', body: html`<p>${sentence}</p>\n<p><a href="/">All mail</a></p>` });
}

function page({ title, body }: { title: string; body: Html }): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Purser development</title>
<link rel="stylesheet" href="${stylePath}">
</head>
<body>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`.markup;
}

const subjectOf = ({ subject }: Mail) => (subject === '' ? '(no subject)' : subject);

function timeElement({ date }: Mail): Html {
  const iso = date.toISOString();
  return html`<time datetime="${iso}">${iso.slice(0, 19).replace('T', ' ')} UTC</time>`;
}

/** Web addresses only: the pieces that `findLinks` names begin with http:// or https://. */
function linkedText(text: string): Html[] {
  return findLinks(text).map(({ text: shown, url }) =>
    url === undefined ? html`${shown}` : html`<a href="${url}" target="_blank" rel="noopener noreferrer">${shown}</a>`,
  );
}
