import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { type Browser, chromium } from 'playwright-core';

const run = promisify(execFile);

/** How Chromium is called where it is installed. */
const names = ['chromium', 'chromium-browser', 'google-chrome'];
const downloadTimeoutMs = 10 * 60_000;

/**
 * Starts a real Chromium: the one that `PURSER_CHROMIUM` names, else the first on the PATH, else the official build of
 * playwright, which is downloaded once.
 * @throws Error saying how to get one
 */
export async function launchBrowser(env: NodeJS.ProcessEnv = process.env): Promise<Browser> {
  const executablePath = env.PURSER_CHROMIUM ?? findOnPath(env.PATH ?? '') ?? (await officialBuild(env));
  if (!isExecutable(executablePath))
    throw new Error(`There is no Chromium at ${executablePath}: set PURSER_CHROMIUM to the path of one.`);
  // Chromium refuses its sandbox to root, which is who runs in a container.
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] });
}

async function officialBuild(env: NodeJS.ProcessEnv): Promise<string> {
  const path = chromium.executablePath();
  if (isExecutable(path)) return path;
  const folder = dirname(createRequire(import.meta.url).resolve('playwright-core/package.json'));
  try {
    const args = [join(folder, 'cli.js'), 'install', 'chromium'];
    await run(process.execPath, args, { env, timeout: downloadTimeoutMs });
  } catch (error) {
    throw new Error(
      `There is no Chromium on the PATH, and the official one could not be downloaded (${String((error as Error).message).split('\n')[0]}): install chromium, or set PURSER_CHROMIUM to the path of one.`,
    );
  }
  return path;
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
