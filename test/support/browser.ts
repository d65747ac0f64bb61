import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

/** How Chromium is called where it is installed. */
const names = ['chromium', 'chromium-browser', 'google-chrome'];

/**
 * Starts a real Chromium: the one that `PURSER_CHROMIUM` names, else the first on the PATH, else the one that
 * `npx playwright-core install chromium` has put in its place.
 * @throws Error saying how to get one
 */
export async function launchBrowser(env: NodeJS.ProcessEnv = process.env): Promise<Browser> {
  const executablePath = env.PURSER_CHROMIUM ?? findOnPath(env.PATH ?? '') ?? chromium.executablePath();
  if (!isExecutable(executablePath))
    throw new Error(
      `There is no Chromium at ${executablePath}: install one, run "npx playwright-core install chromium", or set PURSER_CHROMIUM to its path.`,
    );
  // Chromium refuses its sandbox to root, which is who runs in a container.
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] });
}

function findOnPath(path: string): string | undefined {
  return path
    .split(delimiter)
    .flatMap((folder) => names.map((name) => join(folder, name)))
    .find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
