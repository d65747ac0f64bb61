import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readTargetCa } from '../../shared/read-target-ca.ts';
import { certificate } from '../support/certificate.ts';

describe('the file of authorities for targets', () => {
  const dir = mkdtempSync(join(tmpdir(), 'purser-ca-'));
  const path = join(dir, 'ca.pem');
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  const read = (content: string) => {
    writeFileSync(path, content);
    return readTargetCa(path);
  };

  it.each(['', '\n', `\n${certificate.cert}\r\n`])('is read, with one certificate or more, and %j behind', (behind) => {
    expect(read(certificate.cert + behind)).toBe(certificate.cert + behind);
  });

  it.each([
    [certificate.key, 'holds a private key; it must hold certificates only'],
    [`${certificate.cert}\n${certificate.key}`, 'holds a private key; it must hold certificates only'],
    ['', 'holds no certificate'],
    ['\n', 'holds something that is no certificate in PEM'],
    [certificate.cert.slice(0, 200), 'holds something that is no certificate in PEM'],
    [`${certificate.cert}\nand more`, 'holds something that is no certificate in PEM'],
  ])('is refused otherwise', (content, why) => {
    expect(() => read(content)).toThrow(`PURSER_TARGET_CA_FILE: ${path} ${why}.`);
  });

  it('is refused when it is not there', () => {
    expect(() => readTargetCa(join(dir, 'none'))).toThrow(/cannot be read: ENOENT\./);
  });
});
