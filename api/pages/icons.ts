import { type Html, html } from './html.ts';

/** Drawings beside words, never instead of them. */
const icon = (lines: Html): Html =>
  html`<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">${lines}</svg>`;

export const logo = icon(
  html`<path d="M4 8h16v11a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1z"/><path d="M8 8V6a4 4 0 0 1 8 0v2"/><path d="M12 13v3"/>`,
);
export const check = icon(html`<path d="M5 12.5l4.5 4.5L19 7.5"/>`);
export const cross = icon(html`<path d="M6 6l12 12M18 6L6 18"/>`);
export const clock = icon(html`<circle cx="12" cy="12" r="9"/><path d="M12 7v5l3 2"/>`);
export const dash = icon(html`<path d="M6 12h12"/>`);
export const question = icon(html`<path d="M9 9a3 3 0 1 1 4.2 2.75c-.8.4-1.2 1-1.2 2.25"/><path d="M12 17.5v.01"/>`);
