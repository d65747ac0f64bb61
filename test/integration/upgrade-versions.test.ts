import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type ReleasedCode, tryFindReleasedCode, unpackReleasedCode } from '../upgrade/released-code.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const released = tryFindReleasedCode();
const title = 'reason' in released ? `skipped: ${released.reason}` : released.migration;
const database = `versions_${randomBytes(6).toString('hex')}`;

function urlOf(base: string): string {
  const url = new URL(base);
  url.pathname = `/${database}`;
  return url.href;
}
async function asSuperuser(url: string, sql: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client.query(sql).finally(() => client.end());
}

describe.skipIf('reason' in released)(`two installed versions, this one and the last released one (${title})`, () => {
  let code: ReturnType<typeof unpackReleasedCode>;
  beforeAll(async () => {
    code = unpackReleasedCode(released as ReleasedCode);
    const { superuserUrl } = inject('stack');
    await asSuperuser(superuserUrl, `create database ${database}`);
    await asSuperuser(urlOf(superuserUrl), readFileSync(join(root, 'deploy/roles.sql'), 'utf8'));
  });
  afterAll(async () => {
    await asSuperuser(inject('stack').superuserUrl, `drop database if exists ${database} with (force)`);
    code?.remove();
  });

  it('migrate an empty database at once: each migration is made by one of them', async () => {
    const env = { PATH: process.env.PATH, DATABASE_OWNER_URL: urlOf(inject('stack').ownerUrl) };
    const migrate = (dir: string) => run(process.execPath, [join(dir, 'shared/db/migrate.ts')], { env });
    const said = await Promise.all([code.dir, root, code.dir, root].map(migrate));
    const made = said.flatMap(({ stdout }) => /^Migrated: (.+)$/m.exec(stdout)?.[1]?.split(', ') ?? []);
    const names = readdirSync(join(root, 'shared/db/migrations')).map((file) => file.replace(/\.sql$/, ''));
    expect(made.toSorted()).toEqual(names.toSorted());
    const { rows } = await asSuperuser(
      urlOf(inject('stack').superuserUrl),
      'select name from pgmigrations order by id',
    );
    expect(rows.map(({ name }) => name)).toEqual(names.toSorted());
  });
});
