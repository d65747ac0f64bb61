import { createHash } from 'node:crypto';

/** Colours by their part. Text on its ground has a contrast of 4.5 at least, edges of controls 3 (WCAG 2.2 AA; a test computes it). */
const colours = {
  light: {
    ground: '#f4f5f7',
    surface: '#ffffff',
    sunken: '#f4f5f7',
    ink: '#161a20',
    muted: '#57606c',
    line: '#e1e4e9',
    edge: '#7d8794',
    link: '#1b57b8',
    focus: '#1b57b8',
    yes: '#12703f',
    'on-yes': '#ffffff',
    'yes-wash': '#e3f3ea',
    no: '#ad2a1f',
    'no-wash': '#fbe9e7',
    wait: '#7a5200',
    'wait-wash': '#fdf2d9',
  },
  dark: {
    ground: '#0f1216',
    surface: '#181c22',
    sunken: '#0f1216',
    ink: '#eceff3',
    muted: '#a3adba',
    line: '#2a313a',
    edge: '#76818f',
    link: '#8ab4f8',
    focus: '#8ab4f8',
    yes: '#5bcb8f',
    'on-yes': '#08200f',
    'yes-wash': '#15301f',
    no: '#ff9d92',
    'no-wash': '#3a1a17',
    wait: '#f0c264',
    'wait-wash': '#33270d',
  },
} as const;

const variables = (scheme: Readonly<Record<string, string>>) =>
  Object.entries(scheme)
    .map(([name, colour]) => `--${name}:${colour}`)
    .join(';');

/** The one style sheet of the pages for people: phone first, no script, nothing from elsewhere. */
export const styleSheet = `
:root{color-scheme:light dark;${variables(colours.light)}}
@media (prefers-color-scheme:dark){:root{${variables(colours.dark)}}}
*,::before,::after{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Liberation Sans",sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:44rem;margin:0 auto;padding:0 1.25rem}
header{display:flex;align-items:center;gap:.55rem;padding-top:1.25rem;padding-bottom:1.25rem;font-weight:650;letter-spacing:-.01em}
header svg{width:1.5rem;height:1.5rem;flex:none;color:var(--ink)}
footer{padding-top:1.5rem;padding-bottom:3rem;color:var(--muted);font-size:.875rem}
h1{margin:0;font-size:1.375rem;line-height:1.25;letter-spacing:-.015em;font-weight:650;text-wrap:balance}
h2{margin:0 0 .25rem;font-size:1.125rem;line-height:1.3;letter-spacing:-.01em;font-weight:650}
p{margin:0}
a{color:var(--link);text-underline-offset:.15em}
:focus-visible{outline:3px solid var(--focus);outline-offset:2px}
.card{background:var(--surface);border:1px solid var(--line);border-radius:1rem;padding:1.25rem;margin-bottom:1rem}
.quiet{color:var(--muted)}
.small{font-size:.875rem}
.amount{margin:.75rem 0 .25rem;font-size:2.5rem;line-height:1.1;font-weight:650;letter-spacing:-.03em;font-variant-numeric:tabular-nums}
.amount.long{font-size:1.75rem;letter-spacing:-.02em}
.amount .unit{font-size:.5em;font-weight:600;letter-spacing:0;color:var(--muted);white-space:nowrap}
.until{display:flex;gap:.65rem;align-items:flex-start;margin-top:1rem;padding:.75rem .875rem;border-radius:.75rem;background:var(--wait-wash);color:var(--ink)}
.until svg{width:1.25rem;height:1.25rem;margin-top:.15rem;flex:none;color:var(--wait)}
.until strong{display:block;color:var(--wait)}
dl{margin:0}
dl>div{padding:.875rem 0;border-top:1px solid var(--line)}
dl>div:first-child{border-top:0;padding-top:0}
dl>div:last-child{padding-bottom:0}
dt{color:var(--muted);font-size:.875rem}
dd{margin:.1rem 0 0;overflow:clip;overflow-clip-margin:.25rem}
.address{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:.9375rem;line-height:1.7;overflow-wrap:normal}
.address span{margin-right:.4em;white-space:nowrap}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:.875em}
.tag{display:inline-block;padding:.05rem .5rem;border:1px solid currentColor;border-radius:1rem;color:var(--wait);font-size:.8125rem;font-weight:600}
blockquote{margin:.35rem 0 0;padding:.6rem .875rem;border-left:3px solid var(--edge);border-radius:0 .5rem .5rem 0;background:var(--sunken);white-space:pre-wrap;overflow:clip}
form{margin:0}
label{display:block;margin:1.25rem 0 .1rem;font-weight:600}
.optional{font-weight:400;color:var(--muted)}
textarea{display:block;width:100%;min-height:6rem;margin-top:.5rem;padding:.7rem .8rem;border:1px solid var(--edge);border-radius:.625rem;background:var(--surface);color:var(--ink);font:inherit;resize:vertical}
textarea[aria-invalid]{border:2px solid var(--no)}
.buttons{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,8rem),1fr));gap:.75rem;margin-top:1.25rem}
button{display:flex;align-items:center;justify-content:center;gap:.5rem;min-height:3.25rem;padding:.6rem 1rem;border:2px solid var(--no);border-radius:.75rem;background:var(--surface);color:var(--no);font:inherit;font-weight:650;font-size:1.0625rem;cursor:pointer;touch-action:manipulation;transition:filter .12s}
button svg{width:1.2rem;height:1.2rem;flex:none}
button.yes{border-color:var(--yes);background:var(--yes);color:var(--on-yes)}
button:hover{text-decoration:underline;text-underline-offset:.2em}
button:active{filter:brightness(.92)}
.after{margin-top:1rem}
.error{margin-top:.35rem;color:var(--no);font-weight:600}
.notice{margin-bottom:1rem;padding:1rem 1.25rem;border:1px solid var(--no);border-left-width:.375rem;border-radius:.75rem;background:var(--no-wash)}
.mark{display:flex;align-items:center;justify-content:center;width:3.5rem;height:3.5rem;margin-bottom:1rem;border-radius:50%}
.mark svg{width:1.75rem;height:1.75rem}
.mark.yes{background:var(--yes-wash);color:var(--yes)}
.mark.no{background:var(--no-wash);color:var(--no)}
.mark.wait{background:var(--wait-wash);color:var(--wait)}
.mark.over{background:var(--sunken);color:var(--muted)}
.lead{margin-top:.6rem}
.lead+.lead{margin-top:.75rem}
.lead+blockquote{margin-top:1rem}
.amount+dl{margin-top:1.5rem}
@media (min-width:40rem){
header{padding-top:2.5rem}
.card{padding:2rem}
h1{font-size:1.625rem}
.amount{font-size:3.25rem}
.amount.long{font-size:2rem}
dl>div{display:grid;grid-template-columns:8.5rem 1fr;gap:1rem;align-items:baseline}
dd{margin:0}
}
@media (forced-colors:active){.mark,.until,.card,button{border:1px solid}}
@media (prefers-reduced-motion:reduce){*,::before,::after{transition:none!important;animation:none!important;scroll-behavior:auto!important}}
`;

/** Allows this sheet and a form that answers to us; nothing else is loaded, run, framed or sent anywhere. */
export const contentSecurityPolicy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(styleSheet).digest('base64')}'`,
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');
