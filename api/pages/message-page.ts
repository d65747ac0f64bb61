import { frame } from './frame.ts';
import { type Fragment, html } from './html.ts';
import { question } from './icons.ts';

interface Message {
  readonly heading: string;
  readonly lead: readonly Fragment[];
}

/** A link of no question: all of them look the same, whatever is wrong with them. */
export const unknownLinkPage = message({
  heading: 'This link does not work',
  lead: [
    'It may have been cut off or changed on its way to you. Open it again from the mail, or copy the whole of it into the address bar. If you got more than one mail about the payment, use the newest.',
    'If that does not help, ask the people who run Purser for you.',
  ],
});

/** A form that another site sent. */
export const foreignFormPage = message({
  heading: 'Nothing was decided',
  lead: ['Your answer did not come from this page itself. Open the link in your mail and answer there.'],
});

export const wrongMethodPage = message({
  heading: 'This page only opens and answers',
  lead: ['Open the link in your mail with a browser. Nothing was decided.'],
});

/** Nothing can be shown now, and nothing was done. */
export const unavailablePage = message({
  heading: 'The page cannot be shown now',
  lead: ['Something does not work on our side. Nothing was decided. Your link stays good: try again in a minute.'],
});

/** Something failed while an answer was being stored. @param link opens the page again, relative to this one */
export const uncertainPage = (link: string): string =>
  message({
    heading: 'We do not know whether your answer was counted',
    lead: [
      'Something failed on our side while it was being stored. Open the link again to see; if it was not counted, you can answer again. No answer is ever counted twice.',
      html`<a href="${link}">Open the link again</a>`,
    ],
  });

/** A page that says something and asks nothing. */
export function message({ heading, lead }: Message): string {
  const main = html`<div class="card">
<div class="mark over">${question}</div>
<h1>${heading}</h1>
${lead.map(
  (sentence) => html`<p class="lead">${sentence}</p>
`,
)}</div>`;
  return frame({ title: heading, main });
}
