import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeBatch, encodeBatch } from '../../../signer/engine/engine.ts';
import { loadEngine } from '../../../signer/engine/load.ts';

describe('the batch codec of the engine', () => {
  const byte = fc.nat({ max: 255 });
  const message = fc.record({ from: byte, to: byte, body: fc.uint8Array({ maxLength: 300 }) });

  it('gives back what was put in', () => {
    fc.assert(
      fc.property(fc.array(message, { maxLength: 20 }), (messages) => {
        expect(decodeBatch(encodeBatch(messages))).toEqual(messages);
      }),
    );
  });

  it('refuses every shortened and every lengthened batch as bad input, and never reads past the end', () => {
    fc.assert(
      fc.property(fc.array(message, { maxLength: 5 }), fc.nat(), (messages, cut) => {
        const batch = encodeBatch(messages);
        const bad = [batch.subarray(0, cut % batch.length), Uint8Array.of(...batch, 0)];
        for (const bytes of bad) expect(() => decodeBatch(bytes)).toThrow(/^batch (is truncated|has trailing bytes)$/);
      }),
    );
  });
});

describe('loading the engine', () => {
  const shipped = join(import.meta.dirname, '../../../signer/engine');
  let dir = '';
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'purser-engine-'));
    cpSync(join(shipped, 'artifact.sha256'), join(dir, 'artifact.sha256'));
    for (const file of ['threshold_engine_bg.wasm', 'threshold_engine.js']) {
      cpSync(join(shipped, 'pkg', file), join(dir, 'pkg', file));
    }
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));
  const load = (choice: 'auto' | 'wasm' | 'native') => loadEngine(choice, pathToFileURL(`${dir}/`));

  it('takes the pinned WebAssembly where no native build is', async () => {
    expect(await load('auto')).toMatchObject({ build: 'wasm' });
  });

  it.each(['threshold_engine_bg.wasm', 'threshold_engine.js'])(
    'refuses %s with a single byte changed',
    async (name) => {
      const file = join(dir, 'pkg', name);
      const bytes = readFileSync(file);
      bytes[bytes.length - 2]! ^= 1;
      writeFileSync(file, bytes);
      await expect(load('wasm')).rejects.toThrow(new RegExp(`^${name} has SHA-256 .*: not the pinned engine$`));
    },
  );

  it('says how to make a native build where it is asked for and missing', async () => {
    await expect(load('native')).rejects.toThrow(/npm run engine:native/);
  });
});
