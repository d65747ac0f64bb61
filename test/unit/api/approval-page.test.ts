import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loggedPath } from '../../../api/middleware/logged-path.ts';
import { askingPage } from '../../../api/pages/asking-page.ts';
import { html } from '../../../api/pages/html.ts';
import { outcomePage } from '../../../api/pages/outcome-page.ts';
import { readForm } from '../../../api/pages/read-form.ts';
import { type Asked, standingOf } from '../../../api/pages/standing.ts';
import { contentSecurityPolicy, styleSheet } from '../../../api/pages/style.ts';
import { makeApprovalToken } from '../../../shared/approval-token.ts';
import type { ShownApproval } from '../../../shared/db/approvals.ts';

const approver = 'maria@northwind.example';
const other = 'ben@northwind.example';

const approval: ShownApproval = {
  id: 'apr_1',
  account_id: 'acct_1',
  agent_id: 'agent_1',
  payment_id: 'tx_1',
  target_url: null,
  policy_id: 'pol_1',
  threshold: '1000',
  required_approvals: 1,
  approvers: [approver, other],
  decisions: [],
  status: 'pending',
  expires_at: new Date('2026-11-28T09:30:40Z'),
  created_at: new Date('2026-11-28T07:58:00Z'),
  decided_at: null,
  chain: 'eip155:56',
  token: 'USDC',
  decimals: 18,
  amount_minor: '12500500000000000000000',
  from_address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  to_address: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
  memo: 'Invoice 1187',
  agent_name: 'Procurement',
  agent_description: 'Pays suppliers.',
  account_name: 'Northwind',
  notices: [],
};

function asked(more: Partial<ShownApproval> = {}): Asked {
  return {
    approval: { ...approval, ...more },
    approver,
    chain: { name: 'BNB Smart Chain', network: 'mainnet' },
    now: new Date('2026-11-28T08:05:00Z'),
  };
}

const decision = (by: string, what: 'approved' | 'rejected', note: string | null = null) => ({
  approver: by,
  decision: what,
  note,
  decided_at: '2026-11-28T08:04:00.000Z',
});

function outcomeOf(more: Partial<ShownApproval>): string {
  const each = asked({ decided_at: new Date('2026-11-28T08:04:00Z'), ...more });
  const standing = standingOf(each);
  if (standing === 'asked') throw new Error('The question is open.');
  return outcomePage(each, standing, { refused: false });
}

/** What people read of a page. */
const wordsOf = (page: string) =>
  page
    .replace(/<style>.*<\/style>/s, '')
    .replace(/<wbr>|<\/?(span|bdi)[^>]*>/g, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/[\s\u00a0]+/g, ' ');

describe('the page that asks', () => {
  it('shows decimals, symbol, chain and the whole recipient, never base units (F30)', () => {
    const words = wordsOf(askingPage(asked(), { action: 'x' }));
    for (const each of [
      '12 500.5 USDC',
      'BNB Smart Chain ( eip155:56 )',
      approval.to_address,
      approval.from_address,
      'Procurement',
      'Pays suppliers.',
      'Northwind',
      'Invoice 1187',
      'Payments above 1 000 USDC need a person’s approval.',
      'pol_1',
      'One approval is enough.',
      '1 hour 25 minutes left',
      'Answer by Saturday 28 November 2026, 09:30 UTC',
      'Asked Saturday 28 November 2026, 07:58 UTC',
      `You answer as ${approver}`,
    ])
      expect(words).toContain(each);
    expect(words).not.toContain(approval.amount_minor);
    expect(words).not.toContain(other);
    expect(words).not.toContain('Pays for');
  });

  it('shows what an x402 payment pays for, before who is paid', () => {
    const target_url = 'https://api.example.com/v1/weather?city=Oslo';
    const words = wordsOf(askingPage(asked({ target_url, memo: null }), { action: 'x' }));
    expect(words).toContain(`Pays for ${target_url} To ${approval.to_address}`);
  });

  it('says of several approvals how many are given, and not by whom', () => {
    const words = wordsOf(
      askingPage(asked({ required_approvals: 2, decisions: [decision(other, 'approved')] }), { action: 'x' }),
    );
    expect(words).toContain('1 of 2 given so far. One rejection stops the payment.');
    expect(words).not.toContain(other);
  });

  it('keeps the note, and says beside its field what is wrong with it', () => {
    const fault = { field: 'note', message: 'Too long.', note: '\n"first" line' } as const;
    const page = askingPage(asked(), { action: 'x', fault });
    // The first newline is the browser's to drop.
    expect(page).toContain(
      'aria-describedby="note-hint note-error" aria-invalid="true">\n\n&quot;first&quot; line</textarea>',
    );
    expect(page).toContain('<p class="error" id="note-error">Too long.</p>');
    expect(page).toContain('<title>Not sent: ');
  });

  it('works on a chain that is not served any more', () => {
    expect(wordsOf(askingPage({ ...asked(), chain: undefined }, { action: 'x' }))).toContain('Chain eip155:56 Agent');
  });
});

describe('every outcome', () => {
  it.each<[string, Partial<ShownApproval>, string, string[]]>([
    [
      'waiting',
      { required_approvals: 3, decisions: [decision(approver, 'approved', 'Fine.')], decided_at: null },
      'You approved. 2 more people have to.',
      ['1 of 3 approvals are given', 'Fine.'],
    ],
    [
      'approved alone',
      { status: 'approved', decisions: [decision(approver, 'approved')] },
      'You approved this payment',
      ['Nothing more is needed from you'],
    ],
    [
      'approved together',
      {
        status: 'approved',
        required_approvals: 2,
        decisions: [decision(other, 'approved'), decision(approver, 'approved')],
      },
      'You and one other person approved this payment',
      ['08:04 UTC'],
    ],
    [
      'approved by others',
      { status: 'approved', decisions: [decision(other, 'approved')] },
      'Others approved this payment',
      ['Your answer is not needed any more'],
    ],
    [
      'rejected by oneself',
      { status: 'rejected', decisions: [decision(approver, 'rejected', 'Paid already.')] },
      'You rejected this payment',
      ['Paid already.', 'The payment is not made.'],
    ],
    [
      'rejected by another',
      { status: 'rejected', decisions: [decision(approver, 'approved'), decision(other, 'rejected', 'No.')] },
      'This payment was rejected',
      [`Rejected by ${other}`, 'You had approved it', 'No.'],
    ],
    ['expired', { status: 'expired', decisions: [] }, 'The time to answer is over', ['so it was not made']],
    ['withdrawn', { status: 'cancelled' }, 'There is nothing to decide any more', ['you get a new mail']],
    ['not asked', { approvers: [other] }, 'You are not asked any more', [approver]],
  ])('%s is a page of its own, without a form', (_name, more, heading, sentences) => {
    const page = outcomeOf(more);
    expect(page).toContain(`<h1>${heading}</h1>`);
    expect(page).toContain(`<title>${heading} · Purser</title>`);
    expect(page).not.toContain('<form');
    for (const each of sentences) expect(wordsOf(page)).toContain(each);
  });

  it('tells nothing of the payment to somebody who does not decide on it', () => {
    const page = outcomeOf({ approvers: [other] });
    for (const each of [approval.agent_name, approval.to_address, 'USDC', other])
      expect(wordsOf(page)).not.toContain(each);
  });
});

/** Tags and names of attributes, in order: what text of others must never change. */
const skeleton = (page: string) =>
  [...page.matchAll(/<(\/?\w+)((?:\s+[\w-]+(?:="[^"]*")?)*)\s*\/?>/g)].map(
    ([, tag, attributes]) =>
      `${tag} ${[...(attributes ?? '').matchAll(/([\w-]+)(="[^"]*")?/g)].map(([, name]) => name)}`,
  );
const stray = (page: string) =>
  page.replace(/<(\/?\w+|!doctype)((?:\s+[\w-]+(?:="[^"]*")?)*)\s*\/?>/g, '').match(/[<>]/g);

describe('text of agents and people', () => {
  const hostile = fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 60 }),
    fc
      .array(
        fc.constantFrom(
          '<script>',
          '</dd>',
          '"',
          "'",
          '`',
          '&',
          '>',
          '<!--',
          ' onclick=',
          '</textarea>',
          '\u202e',
          '\n',
          '<',
        ),
        { minLength: 1, maxLength: 8 },
      )
      .map((parts) => parts.join('')),
  );
  const plain = (text: string) => (text === '' ? '' : 'x');

  it('adds no element and no attribute, whatever it is', () => {
    fc.assert(
      fc.property(hostile, hostile, hostile, hostile, (agent, account, memo, note) => {
        const render = (write: (text: string) => string) => [
          askingPage(
            asked({
              agent_name: write(agent),
              agent_description: write(agent),
              account_name: write(account),
              memo: write(memo),
              target_url: write(memo),
              policy_id: write(memo),
            }),
            { action: write(account), fault: { field: 'note', message: write(note), note: write(note) } },
          ),
          outcomeOf({
            status: 'rejected',
            agent_name: write(agent),
            account_name: write(account),
            decisions: [decision(other, 'rejected', write(note))],
          }),
        ];
        const [got, want] = [render((text) => text), render(plain)];
        expect(got.map(skeleton)).toEqual(want.map(skeleton));
        for (const page of got) expect(stray(page.replace(/<style>.*<\/style>/s, ''))).toBeNull();
      }),
      { numRuns: 300 },
    );
  });

  it('is escaped by every template, and only markup is not', () => {
    expect(html`<a title="${`"'><&`}">${['<b>', html`<i>${'&'}</i>`, undefined, false, 0]}</a>`.markup).toBe(
      '<a title="&quot;&#39;&gt;&lt;&amp;">&lt;b&gt;<i>&amp;</i>0</a>',
    );
  });

  it('cannot push the buttons away with blank lines', () => {
    const page = askingPage(asked({ memo: `a${'\n \n'.repeat(200)}b` }), { action: 'x' });
    expect(page).toContain('a\n\nb</blockquote>');
  });
});

describe('the form', () => {
  const type = 'application/x-www-form-urlencoded';
  const read = (body: string | Uint8Array, contentType: string | undefined = type) =>
    readForm({ contentType, body: typeof body === 'string' ? Buffer.from(body) : body });

  it('gives a decision, and the note with newlines as stored and in NFC', () => {
    expect(read('note=a%0D%0Ab%0Dc+d%2B&decision=approved')).toEqual({
      answer: { decision: 'approved', note: 'a\nb\nc d+' },
    });
    expect(read('decision=rejected&note=e%CC%81', `${type}; charset=UTF-8`)).toEqual({
      answer: { decision: 'rejected', note: 'é' },
    });
    for (const note of ['', 'note=', 'note=+%0D%0A'])
      expect(read(`${note}&decision=approved`)).toEqual({ answer: { decision: 'approved', note: null } });
  });

  it('counts code points, after newlines are one each', () => {
    const longest = encodeURIComponent('😀'.repeat(512) + '\r\n'.repeat(512));
    expect(read(`note=${longest}&decision=approved`)).toHaveProperty('answer');
    expect(read(`note=${longest}x&decision=approved`)).toMatchObject({ fault: { field: 'note' } });
  });

  it.each([
    ['no decision', 'note=a', 'decision'],
    ['another decision', 'note=a&decision=maybe', 'decision'],
    ['two decisions', 'decision=approved&decision=rejected', 'decision'],
    ['another field', 'decision=approved&approver=x', 'decision'],
    ['broken percent-encoding', 'decision=approved&note=%zz', 'decision'],
    ['percent-encoding that is no UTF-8', 'decision=approved&note=%ff', 'decision'],
    ['a surrogate', 'decision=approved&note=%ed%a0%80', 'decision'],
    ['a control character', 'decision=approved&note=a%00', 'note'],
  ])('refuses %s', (_what, body, field) => {
    expect(read(body)).toMatchObject({ fault: { field } });
  });

  it('refuses bytes that are no UTF-8, and other kinds of body', () => {
    expect(read(Uint8Array.of(...Buffer.from('decision=approved&note='), 0xff))).toHaveProperty('fault');
    for (const other of ['application/json', 'multipart/form-data; boundary=x', `${type}; charset=latin1`, ''])
      expect(read('decision=approved', other)).toHaveProperty('fault');
    expect(readForm({ contentType: undefined, body: Buffer.from('decision=approved') })).toHaveProperty('fault');
  });
});

/** Contrast of two colours. @see WCAG 2.2, relative luminance */
function contrast(a: string, b: string): number {
  const [low, high] = [a, b].map(luminance).sort((one, two) => one - two);
  return (high! + 0.05) / (low! + 0.05);
}

function luminance(colour: string): number {
  const [r, g, b] = [1, 3, 5]
    .map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

describe('the style sheet', () => {
  const schemes = [...styleSheet.matchAll(/:root\{([^}]*)\}/g)].map(
    ([, body]) =>
      new Map([...body!.matchAll(/--([\w-]+):(#[0-9a-f]{6})/g)].map(([, name, colour]) => [name!, colour!])),
  );

  it.each([
    ['light', 0],
    ['dark', 1],
  ])('has enough contrast in %s', (_name, index) => {
    const colour = (name: string) => schemes[index]!.get(name)!;
    const text = ['ink', 'muted', 'link', 'yes', 'no', 'wait'].flatMap((name) => [
      [name, 'ground'],
      [name, 'surface'],
      [name, 'sunken'],
    ]);
    const washed = [
      ['ink', 'wait-wash'],
      ['wait', 'wait-wash'],
      ['ink', 'no-wash'],
      ['link', 'no-wash'],
      ['no', 'no-wash'],
      ['yes', 'yes-wash'],
      ['on-yes', 'yes'],
    ];
    for (const [front, back] of [...text, ...washed])
      expect(contrast(colour(front!), colour(back!)), `${front} on ${back}`).toBeGreaterThanOrEqual(4.5);
    for (const [front, back] of [
      ['edge', 'surface'],
      ['edge', 'sunken'],
      ['focus', 'surface'],
      ['focus', 'ground'],
    ])
      expect(contrast(colour(front!), colour(back!)), `${front} on ${back}`).toBeGreaterThanOrEqual(3);
  });

  it('is the one that the policy allows, as it stands in the page', () => {
    const [, sheet] = askingPage(asked(), { action: 'x' }).match(/<style>(.*)<\/style>/s)!;
    const hash = createHash('sha256').update(sheet!).digest('base64');
    expect(contentSecurityPolicy).toContain(`style-src 'sha256-${hash}'`);
    expect(sheet).not.toMatch(/url\(|@import|</);
  });
});

describe('a path in the log', () => {
  const { token } = makeApprovalToken();
  const encoded = [...token].map((each) => `%${each.charCodeAt(0).toString(16)}`).join('');

  it.each([
    `/approve/${token}`,
    `/approve/${token}/`,
    `/approve/${token.slice(0, 20)}`,
    `/approve/${token}?utm_source=mail`,
    `/approve/x/${token}`,
    `/APPROVE/${token}`,
    `//approve//${token}`,
    `/%61pprove/${token}`,
    `/%2561pprove%252f${token}`,
    `/approve%2F${token}`,
    `/approve\\${token}`,
    `/approve/${encoded}`,
    `/below/approve/${token}`,
    `/approv/${token}`,
    `/approve${token}`,
    `/${encoded}`,
    `http://host/approve/${token}`,
  ])('holds no token: %s', (url) => {
    const logged = loggedPath(url);
    expect(logged).toContain('…');
    for (let at = 0; at + 8 <= token.length; at += 1) expect(logged).not.toContain(token.slice(at, at + 8));
    expect(logged).not.toContain(encoded);
  });

  it('is as it was sent everywhere else', () => {
    for (const path of [
      '/api/v1/approvals/apr_01kb3m9v7ne8k9m2z4x5c6v7b8/approve',
      '/api/v1/transactions/tx_01kb3m9v7ne8k9m2z4x5c6v7b8/reject',
      '/api/v1/agents/%zz',
      '/docs',
      '/',
    ])
      expect(loggedPath(`${path}?a=b`)).toBe(path);
  });
});
