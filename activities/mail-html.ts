import { escapeHtml } from '../shared/domain/escape-html.ts';
import type { MailWords } from './mail-text.ts';

const font = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif";
const mono = "font-family:ui-monospace,Menlo,Consolas,'Courier New',monospace";
/** Its white text has a contrast above 6 : 1, on light and on dark ground. */
const button =
  'display:inline-block;padding:14px 24px;border-radius:8px;background:#1d4fd8;color:#ffffff;font-weight:600;text-decoration:none';

/**
 * The mail as HTML: one column, no image, nothing from elsewhere, and no colours but the button's, so that the program's
 * own, light or dark, hold. `format-detection` keeps phones from making links of numbers and dates.
 */
export function mailHtml({ title, amount, facts, link, notes }: MailWords): string {
  const rows = facts.map(
    ({ label, value, isCode }) =>
      `<dt style="margin:16px 0 0;font-size:14px;opacity:.75">${label}</dt>
<dd style="margin:0;overflow-wrap:anywhere${isCode ? `;${mono}` : ''}">${escapeHtml(value)}</dd>`,
  );
  return `<!doctype html>
<html lang="en" dir="ltr">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<meta name="format-detection" content="telephone=no,date=no,address=no,email=no,url=no">
<title>${title}</title>
<style>:root { color-scheme: light dark; supported-color-schemes: light dark }</style>
</head>
<body style="margin:0;padding:24px 16px;${font};font-size:16px;line-height:1.5">
<div style="max-width:544px;margin:0 auto">
<h1 style="margin:0;font-size:18px;line-height:1.4;font-weight:600">${title}</h1>
<p style="margin:8px 0 0;font-size:28px;line-height:1.25;font-weight:700;overflow-wrap:anywhere">${escapeHtml(amount)}</p>
<dl style="margin:0">
${rows.join('\n')}
</dl>
<p style="margin:28px 0"><a href="${escapeHtml(link.url)}" style="${button}">${link.words}</a></p>
${notes.map((note) => `<p style="margin:0 0 8px;font-size:14px">${escapeHtml(note)}</p>`).join('\n')}
</div>
</body>
</html>
`;
}
