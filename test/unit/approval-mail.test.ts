import fc from 'fast-check';
import { simpleParser } from 'mailparser';
import { describe, expect, it } from 'vitest';
import { readMailFailure } from '../../activities/mail-failure.ts';
import { type ApprovalMail, renderApprovalMail } from '../../activities/render-approval-mail.ts';
import { approvalPath, makeApprovalToken } from '../../shared/approval-token.ts';
import type { ShownApproval } from '../../shared/db/approvals.ts';

const link = `https://purser.example.com${approvalPath('A1b2-_'.repeat(8).slice(0, 43))}`;
const recipient = '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC';
const now = new Date('2026-11-28T07:05:00Z');
const approval: ShownApproval = {
  id: 'apr_01h455vb4pex5vsknk084sn02q',
  account_id: 'acct_01h455vb4pex5vsknk084sn02q',
  agent_id: 'agent_01h455vb4pex5vsknk084sn02q',
  payment_id: 'tx_01h455vb4pex5vsknk084sn02q',
  target_url: null,
  policy_id: 'pol_01h455vb4pex5vsknk084sn02q',
  threshold: '1000',
  required_approvals: 1,
  approvers: ['ops@example.com', 'treasurer@example.com'],
  decisions: [],
  status: 'pending',
  expires_at: new Date('2026-11-28T08:04:59Z'),
  created_at: now,
  decided_at: null,
  chain: 'eip155:8453',
  token: 'USDC',
  decimals: 6,
  amount_minor: '12500500000',
  from_address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  to_address: recipient,
  memo: 'see https://memo.example.com',
  agent_name: 'research assistant',
  agent_description: null,
  account_name: 'Acme',
  notices: [],
};
const render = (changes: Partial<ShownApproval> = {}, approver = 'ops@example.com'): ApprovalMail =>
  renderApprovalMail({ approval: { ...approval, ...changes }, approver, link, chainName: 'Base', now });

/** What a mail program shows of HTML. */
const shownText = (html: string) =>
  html
    .replaceAll(/<(title|style)>.*?<\/\1>|<[^>]*>/gs, ' ')
    .replaceAll(
      /&(lt|gt|quot|#39|amp);/g,
      (_, name: string) => ({ lt: '<', gt: '>', quot: '"', '#39': "'", amp: '&' })[name]!,
    );
const tags = (html: string) => html.match(/<[^>]*>/g);
/** Without the marks that keep text from being turned around or made a link of, and in one line. */
const plain = (text: string) => text.replaceAll(/[\u2068\u2069\u200b]/g, '').replaceAll(/\s+/g, ' ');
/** What a mail program makes links of, by the judgement of mailparser. */
async function linksIn(text: string): Promise<string[]> {
  const source = `Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n${Buffer.from(text).toString('base64')}`;
  const { textAsHtml = '' } = await simpleParser(source);
  return [...textAsHtml.matchAll(/<a href="([^"]*)"/g)].map(([, href]) => href!);
}

const temptations = [
  ...['https://', 'http://evil.example/approve', 'evil.com', 'www.evil.com', 'evil。com', 'evil．com', '//evil.com'],
  ...[
    'mailto:',
    'a@evil.com',
    '@',
    '.',
    ':',
    '/',
    ' ',
    '\n',
    '\r\nBcc: all@evil.com\r\n',
    '<a href="https://evil.com">',
  ],
  ...[
    '</dd>',
    '<script>',
    '"',
    "'",
    '&',
    '&#46;',
    '<!--',
    '\u202e',
    '\u2066',
    '\u2069',
    '\u200b',
    '\u2028',
    '\ud800',
    'com',
  ],
];
const hostile = fc
  .array(fc.oneof(fc.constantFrom(...temptations), fc.string({ unit: 'grapheme', maxLength: 12 })), { maxLength: 8 })
  .map((parts) => parts.join(''));

describe('mail that asks an approver', () => {
  it('says what is asked, in text and in HTML alike', () => {
    const { subject, text, html } = render();
    expect(subject).toBe('Your approval is needed: 12 500.5 USDC on Base');
    for (const shown of [plain(text), plain(shownText(html))])
      for (const words of [
        '12 500.5 USDC',
        recipient,
        'Base (eip155:8453)',
        'research assistant',
        'Acme',
        'Saturday 28 November 2026, 08:04 UTC (in 59 minutes)',
        'It is more than 1 000 USDC, the threshold of policy pol_01h455vb4pex5vsknk084sn02q.',
        '1 of 2 people who are asked must agree. One rejection ends it.',
        'Opening the page decides nothing',
        'This mail is meant for ops@example.com alone.',
        'do not forward it.',
      ])
        expect(shown).toContain(words);
    expect(text).toContain(`\n\n${link}\n\n`);
    expect(html).toContain(`<a href="${link}"`);
  });

  it('F30: writes amounts as decimals of the token, never in base units', () => {
    fc.assert(
      fc.property(fc.bigInt(1n, 10n ** 30n), fc.constantFrom(0, 2, 6, 8, 18), (minor, decimals) => {
        const { subject, text, html } = render({ amount_minor: String(minor), decimals });
        const shown = /needed: ([\d .]+) USDC/.exec(subject)![1]!;
        const [whole = '', fraction = ''] = shown.replaceAll(' ', '').split('.');
        expect(BigInt(whole + fraction.padEnd(decimals, '0'))).toBe(minor);
        expect(whole).toBe(String(minor / 10n ** BigInt(decimals)));
        expect(shown.split('.')[0]).toMatch(/^\d{1,3}( \d{3})*$/);
        for (const form of [text, html]) expect(plain(form)).toContain(`${shown} USDC`);
      }),
    );
    expect(render({ amount_minor: '1', decimals: 18, token: 'ETH' }).subject).toContain(' 0.000000000000000001 ETH ');
  });

  it('says who must agree, and how many have', () => {
    const decided = { approver: 'treasurer@example.com', decision: 'approved', note: null, decided_at: '' } as const;
    expect(plain(render({ required_approvals: 2, decisions: [decided] }).text)).toContain(
      '2 of 2 people who are asked must agree. So far 1 agreed. One rejection ends it.',
    );
    expect(render({ approvers: ['ops@example.com'] }).text).toContain('you alone are asked.');
  });

  it('keeps lines of text short where words allow it', () => {
    for (const line of render().text.split('\n')) if (line !== link) expect(line.length).toBeLessThanOrEqual(72);
  });

  it('says nothing of the memo', () => {
    const { subject, text, html } = render();
    expect(subject + text + html).not.toContain('memo');
  });

  it('says what an x402 payment pays for, without the query, and makes no link of it', async () => {
    const target_url = 'https://api.example.com/v1/weather?key=secret';
    const { text, html } = render({ target_url });
    for (const form of [plain(text), plain(shownText(html))]) {
      expect(form).toContain('Pays for https://api.example.com/v1/weather');
      expect(form).not.toContain('secret');
    }
    await fc.assert(
      fc.asyncProperty(fc.webUrl({ size: 'large', withQueryParameters: true, withFragments: true }), async (url) => {
        const mail = render({ target_url: url });
        expect(await linksIn(mail.text)).toEqual([link]);
        expect(await linksIn(shownText(mail.html))).toEqual([]);
        expect(plain(mail.text)).toContain(`Pays for ${new URL(url).origin.slice(0, 40)}`);
      }),
      { numRuns: 100 },
    );
    expect(plain(render({ target_url: `https://a.example/${'x'.repeat(2_000)}` }).text)).toMatch(/x{100,200}… To /);
  });

  it('refers to nothing else: no image, no style sheet, no font, no script', () => {
    const { html } = render();
    expect(html.replace(link, '')).not.toMatch(
      /https?:|\/\/|url\(|@import|<(img|link|script|iframe|object|form)\b|src=/i,
    );
    expect(html).toContain('<meta name="color-scheme" content="light dark">');
  });

  it('holds one link, and no name can become another, change its HTML or turn it around', async () => {
    const harmless = render();
    await fc.assert(
      fc.asyncProperty(hostile, hostile, async (agent_name, account_name) => {
        const { subject, text, html } = render({ agent_name, account_name });
        expect(subject).toBe(harmless.subject);
        expect(tags(html)).toEqual(tags(harmless.html));
        expect(await linksIn(text)).toEqual([link]);
        expect(await linksIn(shownText(html))).toEqual([]);
        for (const form of [text, html]) {
          expect(form).toBe(form.toWellFormed());
          expect(form).not.toMatch(/[^\P{Cc}\n]|[\u202a-\u202e\u2066\u2067\u2028\u2029]/u);
          expect(form.match(/[\u2068\u2069]/g)?.join('')).toBe('\u2068\u2069'.repeat(3));
        }
        expect(text.split('\n').filter((line) => /^(Bcc|To|Amount)/.test(line))).toHaveLength(2);
      }),
      { numRuns: 300 },
    );
  });

  it('would fail if names were written as they are', async () => {
    for (const name of ['pay at https://evil.example', 'evil.com', 'www.evil.com', 'a@evil.com'])
      expect(await linksIn(`Agent  ${name}`)).toHaveLength(1);
  });
});

describe('failure of a mail', () => {
  const refused = (response: string, command: string, code = 'EENVELOPE') => {
    const responseCode = Number(response.slice(0, 3));
    const permanent = responseCode >= 500 && responseCode !== 503;
    return Object.assign(new Error(`x: ${response}`), { response, responseCode, permanent, command, code });
  };
  const read = (error: unknown, secret = makeApprovalToken().token) => readMailFailure(error, { secret });

  it.each([
    ['550 5.1.1 No such user here', 'RCPT TO', true],
    ['452 4.2.2 Mailbox full', 'RCPT TO', false],
    ['503 5.5.1 Bad sequence', 'RCPT TO', false],
    ['554 5.7.1 Spam', 'DATA', true],
    ['451 4.7.1 Greylisted', 'DATA', false],
    ['553 5.7.1 Sender not owned', 'MAIL FROM', false],
    ['535 5.7.8 Bad credentials', 'AUTH PLAIN', false],
    ['554 No SMTP service here', 'CONN', false],
  ])('of %j to %s is permanent: %s', (response, command, isPermanent) => {
    expect(read(refused(response, command)).isPermanent).toBe(isPermanent);
  });

  it.each([
    [
      refused('550 5.1.1 No such user here', 'RCPT TO'),
      'The mail server answered 550 5.1.1 to the recipient: No such user here',
    ],
    [
      refused('535-5.7.8 Bad\n535 5.7.8 credentials.', 'AUTH PLAIN'),
      'The mail server answered 535 5.7.8 to our credentials.',
    ],
    [refused('554 x@y.z', 'DATA'), 'The mail server answered 554 to the mail.'],
    [
      Object.assign(new Error(), { code: 'ESOCKET', originalCode: 'ECONNREFUSED' }),
      'The mail server cannot be reached (ECONNREFUSED).',
    ],
    [Object.assign(new Error(), { code: 'ETIMEDOUT' }), 'The mail server did not answer in time (ETIMEDOUT).'],
    [new TypeError('secret'), 'The mail could not be sent.'],
  ])('reads %s in words', (error, message) => {
    expect(read(error).message).toBe(message);
  });

  it('holds no piece of the token, however the server repeats it', () => {
    const pieces = (token: string) =>
      Array.from({ length: token.length - 5 }, (_, start) => token.slice(start, start + 6));
    const echoes: ((token: string) => string)[] = [
      (token) => `https://purser.example.com/approve/${token}`,
      (token) => token.replaceAll(/(.{20})/g, '$1=\r\n554 5.7.1 '),
      (token) => token.replaceAll(/(.{9})/g, '$1 '),
      (token) => token.replaceAll(/(.)/g, '$1 '),
      (token) => token.replaceAll('-', '=2D').replaceAll('_', '=5F'),
    ];
    fc.assert(
      fc.property(fc.integer({ min: 0, max: echoes.length - 1 }), fc.boolean(), (which, first) => {
        const { token } = makeApprovalToken();
        const echo = echoes[which]!(token);
        const error = refused(
          first ? `554 5.7.1 ${echo} is listed` : `554 5.7.1 Listed is ${echo}`,
          'DATA',
          'EMESSAGE',
        );
        const { message } = readMailFailure(error, { secret: token });
        expect(message.length).toBeLessThan(200);
        for (const piece of pieces(token)) expect(message.replaceAll(' ', '')).not.toContain(piece);
      }),
    );
  });

  it('holds no piece of a token that looks like words', () => {
    const error = refused('554 5.7.1 Blocked: corre ct horse bat tery', 'DATA');
    expect(read(error, 'correcthorsebattery').message).toBe('The mail server answered 554 5.7.1 to the mail.');
    expect(read(error, 'another').message).toContain(': Blocked: corre ct horse bat tery');
  });

  it('is cut to a sane length', () => {
    expect(read(refused(`554 5.7.1 ${'go away '.repeat(2_000)}`, 'DATA')).message.length).toBeLessThan(200);
  });
});
