import { mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { insertMember } from '../../../shared/db/members.ts';
import { launchBrowser } from '../../support/browser.ts';
import { exchange, type SignInWorld, startSignInWorld } from './sign-in-calls.ts';

/** Where the pages can be looked at afterwards. */
const output = fileURLToPath(new URL('../../../test-output/sign-in/', import.meta.url));

/** A console, which shows with which address it was opened. */
const consoleServer = createServer((request, response) => {
  seen.push({ url: request.url!, referer: request.headers.referer });
  response.setHeader('Content-Type', 'text/html');
  response.end('<title>Console</title>');
});
const seen: { url: string; referer: string | undefined }[] = [];
const email = 'ann@example.com';
let browser: Browser;
let withPage: SignInWorld;
let withConsole: SignInWorld;

beforeAll(async () => {
  await new Promise<void>((resolve) => consoleServer.listen(0, '127.0.0.1', resolve));
  const { port } = consoleServer.address() as AddressInfo;
  // By another name, the provider is another site than the api, as it is in the world.
  [browser, withPage, withConsole] = await Promise.all([
    launchBrowser(),
    startSignInWorld({ hostname: 'localhost' }),
    startSignInWorld({ hostname: 'localhost', consoleUrl: `http://127.0.0.1:${port}/start` }),
  ]);
  for (const { api, provider } of [withPage, withConsole]) {
    provider.add(email, { name: 'Ann' });
    await insertMember(api.pool, { accountId: (await api.account()).id, email, role: 'owner' });
  }
  mkdirSync(output, { recursive: true });
});
afterAll(async () => {
  await browser?.close();
  await Promise.all([withPage, withConsole].map((world) => world?.stop()));
  consoleServer.close();
  consoleServer.closeAllConnections();
});

async function openPage(): Promise<Page> {
  const context = await browser.newContext({ javaScriptEnabled: false, viewport: { width: 390, height: 844 } });
  const page = await context.newPage();
  page.on('console', (message) => {
    // Chromium notes every answer of 400 and above there.
    if (!message.text().startsWith('Failed to load resource')) expect.soft(message.text()).toBe('');
  });
  return page;
}

describe('in a real browser, without script', () => {
  it('somebody signs in at a provider of another site, and the page shows a code that is good', async () => {
    const page = await openPage();
    await page.goto(`${withPage.api.url}/auth/oidc/redirect`);
    expect(new URL(page.url()).hostname).toBe('localhost');
    await page.screenshot({ path: `${output}choose.png`, fullPage: true });
    await page.getByRole('button', { name: email }).click();
    expect(await page.getByRole('heading').textContent()).toBe('You are signed in');
    await page.screenshot({ path: `${output}signed-in.png`, fullPage: true });
    const code = await page.locator('#code').textContent();
    expect(await page.locator('#command').textContent()).toBe(
      `curl -s ${withPage.api.url}/api/v1/auth/exchange -H 'Content-Type: application/json' -d '{"exchange_code":"${code}"}'`,
    );
    expect((await exchange(withPage.api.url, code!)).body.user.email).toBe(email);
    expect(await page.context().cookies(withPage.api.url)).not.toContainEqual(
      expect.objectContaining({ name: expect.stringMatching(/^purser_sign_in_/) }),
    );
    await page.reload();
    expect(await page.getByRole('heading').textContent()).toBe('This sign-in cannot go on');
    await page.screenshot({ path: `${output}over.png`, fullPage: true });
    await page.getByRole('link', { name: 'Sign in again' }).click();
    expect(await page.getByRole('heading').textContent()).toBe('Who signs in?');
  });

  it('two tabs are at the provider at once, and both end at the console, which learns no referrer', async () => {
    const one = await openPage();
    const other = await one.context().newPage();
    await one.goto(`${withConsole.api.url}/auth/oidc/redirect`);
    await other.goto(`${withConsole.api.url}/auth/oidc/redirect`);
    for (const page of [one, other]) {
      await page.getByRole('button', { name: email }).click();
      expect(await page.title()).toBe('Console');
      const { pathname, searchParams } = new URL(page.url());
      expect(pathname).toBe('/start');
      expect((await exchange(withConsole.api.url, searchParams.get('exchange_code')!)).status).toBe(200);
    }
    const arrivals = seen.filter(({ url }) => url.startsWith('/start'));
    expect(arrivals).toHaveLength(2);
    for (const { referer } of arrivals) expect(referer).toBeUndefined();
  });

  it('who turns back at the provider is told so, and can begin again', async () => {
    const page = await openPage();
    await page.goto(`${withPage.api.url}/auth/oidc/redirect`);
    await page.getByRole('button', { name: 'Nobody' }).click();
    expect(await page.getByRole('heading').textContent()).toBe('You cannot come in');
    await page.screenshot({ path: `${output}refused.png`, fullPage: true });
    expect(await page.getByRole('link', { name: 'Sign in again' }).getAttribute('href')).toBe(
      `${withPage.api.url}/auth/oidc/redirect`,
    );
  });
});
