import { durationInWords } from '../../shared/domain/time-in-words.ts';
import { amountOf, largeAmount, paymentFacts, questionFacts } from './facts.ts';
import { frame } from './frame.ts';
import { html } from './html.ts';
import { check, clock, cross } from './icons.ts';
import type { Asked } from './standing.ts';
import { writeEmail, writeTime } from './words.ts';

/** Longest note, in code points. */
export const maxNoteLength = 1024;

/** Why a form that was sent could not be taken. */
export interface FormFault {
  readonly field: 'note' | 'decision';
  /** A sentence for the person. */
  readonly message: string;
  /** What stood in the note, as far as it could be read. */
  readonly note: string;
}

/**
 * The page that asks: what the payment is, and a form with two answers.
 * @param action where the form goes, relative to the page, so that a path before ours does not matter
 * @param fault of the form that was sent last, if that one could not be taken
 */
export function askingPage(asked: Asked, { action, fault }: { action: string; fault?: FormFault | undefined }): string {
  const { number, unit } = amountOf(asked);
  const main = html`${fault && notice(fault)}
<div class="card">
<h1>Approve this payment?</h1>
${largeAmount(asked)}
${deadline(asked)}
</div>
<div class="card">
<dl>
${paymentFacts(asked)}${questionFacts(asked)}</dl>
</div>
${form(asked, { action, fault })}`;
  return frame({
    title: `${fault ? 'Not sent: ' : ''}Approve ${number} ${unit}?`,
    main,
    footer: html`<p>This page answers for ${writeEmail(asked.approver)} alone. Do not pass its link on.</p>`,
  });
}

function deadline({ approval, now }: Asked) {
  const left = durationInWords(approval.expires_at.getTime() - now.getTime());
  return html`<p class="until">${clock}<span><strong>${left} left</strong>Answer by ${writeTime(approval.expires_at)}. After that the payment is not made.</span></p>`;
}

function notice({ field, message }: FormFault) {
  return html`<div class="notice">
<p><strong>Nothing is decided yet.</strong> ${message} <a href="#${field === 'note' ? 'note' : 'answer'}">Go to the ${field === 'note' ? 'note' : 'answer'}</a></p>
</div>`;
}

function form({ approver }: Asked, { action, fault }: { action: string; fault: FormFault | undefined }) {
  const noteFault = fault?.field === 'note' ? fault : undefined;
  const answerFault = fault?.field === 'decision' ? fault : undefined;
  // The browser drops the first newline of a textarea; one is given for it to drop.
  return html`<section class="card" aria-labelledby="answer">
<h2 id="answer" tabindex="-1">Your answer</h2>
<p>You answer as <strong>${writeEmail(approver)}</strong></p>
<form method="post" action="${action}" autocomplete="off">
<label for="note">Note <span class="optional">(optional)</span></label>
<p class="quiet small" id="note-hint">Kept with your answer, for those who run the agent. Up to ${maxNoteLength} characters.</p>
${noteFault && html`<p class="error" id="note-error">${noteFault.message}</p>`}
<textarea id="note" name="note" rows="3" aria-describedby="note-hint${noteFault && ' note-error'}"${noteFault && html` aria-invalid="true"`}>
${fault?.note}</textarea>
${answerFault && html`<p class="error after" id="answer-error">${answerFault.message}</p>`}
<div class="buttons">
<button class="yes" name="decision" value="approved"${answerFault && html` aria-describedby="answer-error"`}>${check}Approve</button>
<button class="no" name="decision" value="rejected"${answerFault && html` aria-describedby="answer-error"`}>${cross}Reject</button>
</div>
</form>
</section>`;
}
