import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { initTokenKeys, rotateTokenKeys } from '../../../../api/init-token-keys.ts';
import { createAccessTokens } from '../../../../api/tokens/access-tokens.ts';
import { watchTokenKeys } from '../../../../api/tokens/watch-token-keys.ts';

const dir = mkdtempSync(join(tmpdir(), 'purser-watch-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

let keysFile: string;
let files = 0;
let lines: { level: number; msg: string }[];
const log = pino({ level: 'trace' }, { write: (line) => void lines.push(JSON.parse(line)) });
const holder = { accountId: 'acct', userId: 'user', sessionId: 'sid' };
const issuer = 'https://purser.test';

beforeEach(async () => {
  lines = [];
  files += 1;
  keysFile = join(dir, `${files}.json`);
  await initTokenKeys({ keysFile });
});

const kidsOf = ({ keys }: ReturnType<typeof watchTokenKeys>) => keys().publicJwks.keys.map(({ kid }) => kid);

describe('keys that are watched', () => {
  it('are taken up when the file is another one, and stay what they are while it is the same', async () => {
    const watched = watchTokenKeys(keysFile, { log });
    const before = watched.keys();
    watched.lookAgain();
    expect(watched.keys()).toBe(before);
    await rotateTokenKeys({ keysFile, inSeconds: 0 });
    watched.lookAgain();
    expect(kidsOf(watched)).toHaveLength(2);
    expect(lines.map(({ msg }) => msg)).toEqual(['took up the keys of access tokens']);
  });

  it('stay as they were while the file is broken or away, which is told once, and are taken up when it is good again', () => {
    const watched = watchTokenKeys(keysFile, { log });
    const [before, good] = [watched.keys(), readFileSync(keysFile, 'utf8')];
    const secret = JSON.parse(good).keys[0].d;
    writeFileSync(keysFile, good.slice(0, -5));
    for (let i = 0; i < 3; i += 1) watched.lookAgain();
    renameSync(keysFile, `${keysFile}.away`);
    for (let i = 0; i < 3; i += 1) watched.lookAgain();
    expect(watched.keys()).toBe(before);
    const told = 'the file of token keys cannot be used: the keys stay as they were';
    expect(lines.map(({ level, msg }) => [level, msg])).toEqual([
      [50, told],
      [50, told],
    ]);
    expect(JSON.stringify(lines)).not.toContain(secret);
    writeFileSync(keysFile, good);
    watched.lookAgain();
    expect(watched.keys()).not.toBe(before);
    expect(watched.keys().publicJwks).toEqual(before.publicJwks);
  });

  it('are looked for at once where a token names one that is not known', async () => {
    const [slow, fast] = [watchTokenKeys(keysFile, { log }), watchTokenKeys(keysFile, { log })];
    const [checking, signing] = [slow, fast].map((watched) => createAccessTokens({ ...watched, issuer }));
    const early = await signing!.sign(holder);
    await rotateTokenKeys({ keysFile, inSeconds: 0 });
    fast.lookAgain();
    expect(await checking!.verify(await signing!.sign(holder))).toEqual(holder);
    expect(kidsOf(slow)).toHaveLength(2);
    expect(await checking!.verify(early)).toEqual(holder);
  });

  it('that are taken out of the file are trusted no more', async () => {
    const watched = watchTokenKeys(keysFile, { log });
    const tokens = createAccessTokens({ ...watched, issuer });
    const token = await tokens.sign(holder);
    rmSync(keysFile);
    await initTokenKeys({ keysFile });
    watched.lookAgain();
    await expect(tokens.verify(token)).rejects.toThrow();
  });

  it('must be there at the start', () => {
    expect(() => watchTokenKeys(join(dir, 'none.json'), { log })).toThrow(/cannot be read: ENOENT/);
  });
});
