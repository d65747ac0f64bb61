import { Html, html } from './html.ts';
import { logo } from './icons.ts';
import { styleSheet } from './style.ts';

/** Markup of the sheet: it is ours, and its hash in the policy stands for these very bytes. */
const style = new Html(`<style>${styleSheet}</style>`);

/**
 * A whole page around its main part.
 * @param title says the state: it is what a screen reader says first, and what a tab shows
 * @param footer e.g. for whom the page is
 * @returns the document
 */
export function frame({ title, main, footer }: { title: string; main: Html; footer?: Html | undefined }): string {
  // A phone would make links and reminders of numbers and names that an agent wrote.
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="format-detection" content="telephone=no, date=no, address=no, email=no">
<title>${title} · Purser</title>
${style}
</head>
<body>
<header>${logo} Purser</header>
<main>
${main}
</main>
<footer>${footer}</footer>
</body>
</html>
`.markup;
}
