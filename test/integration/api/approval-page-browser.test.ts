import { mkdirSync } from 'node:fs';
import { createServer, type RequestListener, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { approvalPath, makeApprovalToken } from '../../../shared/approval-token.ts';
import { withdrawApproval } from '../../../shared/db/approvals.ts';
import { launchBrowser } from '../../support/browser.ts';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { askByMail, ben, form, post } from './mailed-question.ts';
import { type Demand, expireIn } from './questions.ts';

const nobody = '127.0.0.1:1';
/** Where the pages can be looked at afterwards. */
const output = fileURLToPath(new URL('../../../test-output/approval-page/', import.meta.url));

let api: TestApi;
let account: TestAccount;
let browser: Browser;

beforeAll(async () => {
  api = await startTestApi({ temporalAddress: nobody });
  account = await api.account();
  browser = await launchBrowser();
  mkdirSync(output, { recursive: true });
});
afterAll(async () => {
  await browser?.close();
  await api?.stop();
});

const ask = (demand: Partial<Demand> = {}) => askByMail(api, account, demand);

/** A server of somebody else, for as long as `work` takes. */
async function withServer(listener: RequestListener, work: (port: number) => Promise<void>): Promise<void> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await work((server.address() as AddressInfo).port);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

const narrow = { viewport: { width: 320, height: 700 } };
const phone = { viewport: { width: 390, height: 844 } };
const desk = { viewport: { width: 1280, height: 900 } };

/** Opens a link as a mail program would have a browser do it: without script, and with nothing on its console. */
async function open(url: string, options: BrowserContextOptions = phone): Promise<Page> {
  const context = await browser.newContext({ javaScriptEnabled: false, ...options });
  const page = await context.newPage();
  page.on('console', (message) => {
    // Chromium notes every answer of 400 and above there.
    if (!message.text().startsWith('Failed to load resource')) expect.soft(message.text()).toBe('');
  });
  await page.goto(url);
  return page;
}

async function fits(page: Page): Promise<boolean> {
  return page.evaluate('document.documentElement.scrollWidth <= window.innerWidth');
}

describe('in Chromium', () => {
  const states: Record<string, () => Promise<{ url: string; submit?: string }>> = {
    async asking() {
      return (await ask()).link();
    },
    async 'asking-one-of-two'() {
      const question = await ask({ required: 2 });
      await post((await question.link(ben)).url, form({ decision: 'approved' }));
      return question.link();
    },
    async 'wrong-input'() {
      return { ...(await (await ask()).link()), submit: 'x'.repeat(1100) };
    },
    async waiting() {
      const link = await (await ask({ required: 2 })).link();
      await post(link.url, form({ decision: 'approved', note: 'Checked against the order.' }));
      return link;
    },
    async 'approved-by-me'() {
      const link = await (await ask()).link();
      await post(link.url, form({ decision: 'approved', note: 'Checked against the order.' }));
      return link;
    },
    async 'approved-by-others'() {
      const question = await ask();
      await post((await question.link(ben)).url, form({ decision: 'approved' }));
      return question.link();
    },
    async 'rejected-by-me'() {
      const link = await (await ask()).link();
      await post(link.url, form({ decision: 'rejected', note: 'This invoice was paid on Monday.' }));
      return link;
    },
    async 'rejected-by-another'() {
      const question = await ask();
      await post((await question.link(ben)).url, form({ decision: 'rejected', note: 'Paid on Monday.' }));
      return question.link();
    },
    async expired() {
      const question = await ask();
      await expireIn(api, { approvalId: question.approvalId, ms: -1 });
      return question.link();
    },
    async withdrawn() {
      const question = await ask();
      await withdrawApproval(api.pool, { id: question.approvalId });
      return question.link();
    },
    async 'not-asked'() {
      return (await ask()).link('stranger@northwind.example');
    },
    unknown: async () => ({ url: api.url + approvalPath(makeApprovalToken().token) }),
  };

  it.each(Object.entries(states))('%s looks right: at every width, light and dark', async (name, make) => {
    const { url, submit } = await make();
    const page = await open(url);
    if (submit !== undefined) {
      await page.fill('#note', submit);
      await page.click('button.yes');
    }
    expect(await page.locator('h1').count()).toBe(1);
    expect(await page.locator('html').getAttribute('lang')).toBe('en');
    for (const { viewport } of [narrow, phone, desk])
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme });
        expect(await fits(page), `${name} at ${viewport.width}`).toBe(true);
        if (viewport === narrow.viewport) continue;
        await page.screenshot({ path: `${output}${name}-${viewport.width}-${colorScheme}.png`, fullPage: true });
      }
    await page.context().close();
  });

  it('fits a phone at twice the size, with long names too', async () => {
    const question = await ask();
    await api.pool.query('update agents set agent_name = $2 where id = $1', [question.agent.agentId, 'W'.repeat(128)]);
    const page = await open((await question.link()).url, { viewport: { width: 195, height: 400 } });
    expect(await fits(page)).toBe(true);
    await page.context().close();
  });

  it('is answered by keyboard alone, and by nothing but its buttons', async () => {
    const question = await ask();
    const page = await open((await question.link()).url);
    const focused = () => page.evaluate('document.activeElement.textContent.trim() || document.activeElement.id');
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('note');
    await page.keyboard.type('One');
    await page.keyboard.press('Enter');
    await page.keyboard.type('Two');
    expect((await question.now()).status).toBe('pending');
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('Approve');
    const outline = () => page.evaluate('getComputedStyle(document.activeElement).outlineWidth');
    expect(await outline()).toBe('3px');
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('Reject');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'You approved this payment' }).waitFor();
    expect((await question.now()).decisions).toMatchObject([{ decision: 'approved', note: 'One\nTwo' }]);
    await page.context().close();
  });

  it('has buttons that a thumb finds, and names for everything', async () => {
    const page = await open((await (await ask()).link()).url);
    for (const name of ['Approve', 'Reject']) {
      const box = (await page.getByRole('button', { name, exact: true }).boundingBox())!;
      expect(Math.min(box.width, box.height)).toBeGreaterThanOrEqual(44);
    }
    await page.getByLabel('Note (optional)').waitFor();
    await page.getByRole('region', { name: 'Your answer' }).waitFor();
    for (const role of ['banner', 'main', 'contentinfo'] as const) expect(await page.getByRole(role).count()).toBe(1);
    expect(await page.getByRole('link').count()).toBe(0);
    await page.context().close();
  });

  it('copies an address without its gaps, and shows text of the agent as text', async () => {
    const question = await ask();
    const page = await open((await question.link()).url);
    const copied = await page.evaluate(
      "getSelection().selectAllChildren(document.querySelector('.address')), getSelection().toString()",
    );
    expect(copied).toBe((await question.now()).to_address);
    expect(await page.locator('blockquote').textContent()).toContain(
      '<b>hosting</b> for November.\nSee https://evil.example',
    );
    await page.context().close();
  });

  it('decides once for a double click, and tells the second of two tabs', async () => {
    const question = await ask();
    const { url } = await question.link();
    const [first, second] = [await open(url), await open(url)];
    await first.dblclick('button.yes');
    await first.getByRole('heading', { name: 'You approved this payment' }).waitFor();
    expect(await first.getByText('was not counted').count()).toBe(0);
    await second.click('button.no');
    await second.getByText('Your last answer was not counted.').waitFor();
    const { status, decisions } = await question.now();
    expect([status, decisions.length]).toEqual(['approved', 1]);
    await first.reload();
    await first.getByRole('heading', { name: 'You approved this payment' }).waitFor();
    for (const page of [first, second]) await page.context().close();
  });

  it('sends its own form as ours with a hidden origin, also below a path of a proxy', async () => {
    const question = await ask();
    const { token } = await question.link();
    const proxy: RequestListener = (incoming, response) => {
      const { method, headers, url } = incoming;
      const target = new URL(api.url + url!.replace(/^\/pay/, ''));
      const onward = request(target, { method, headers: { ...headers, host: target.host } }, (answer) => {
        response.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(response);
      });
      incoming.pipe(onward);
    };
    await withServer(proxy, async (port) => {
      const page = await open(`http://127.0.0.1:${port}/pay/approve/${token}`);
      const sent = page.waitForRequest((each) => each.method() === 'POST');
      await page.click('button.no');
      const headers = await (await sent).allHeaders();
      expect([headers.origin, headers['sec-fetch-site'], headers.referer]).toEqual(['null', 'same-origin', undefined]);
      await page.getByRole('heading', { name: 'You rejected this payment' }).waitFor();
      expect((await question.now()).status).toBe('rejected');
      await page.context().close();
    });
  });

  it('refuses the form of another site', async () => {
    const question = await ask();
    const { url } = await question.link();
    const foreign: RequestListener = (_request, response) => {
      response.setHeader('Content-Type', 'text/html');
      response.end(`<form method="post" action="${url}"><button name="decision" value="approved">Win</button></form>`);
    };
    await withServer(foreign, async (port) => {
      const page = await open(`http://localhost:${port}/`);
      await page.click('button');
      await page.getByRole('heading', { name: 'Nothing was decided' }).waitFor();
      expect((await question.now()).status).toBe('pending');
      await page.context().close();
    });
  });
});
