import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { ThresholdEngine } from './engine.ts';

/** `auto` takes the native build where someone compiled it (`npm run engine:native`), WebAssembly everywhere else. */
export type EngineChoice = 'auto' | 'wasm' | 'native';

const here = new URL('./', import.meta.url);
const WASM = 'threshold_engine_bg.wasm';
const GLUE = 'threshold_engine.js';
const NATIVE = 'threshold_engine.node';

/** Reads `<hex>  <file>` lines, as sha256sum writes them. */
function pinnedDigests(dir: URL): Map<string, string> {
  const lines = readFileSync(new URL('artifact.sha256', dir), 'utf8').trim().split('\n');
  return new Map(lines.map((line) => line.split(/\s+/) as [string, string]).map(([digest, file]) => [file, digest]));
}

function readPinned(file: string, { dir, pins }: { dir: URL; pins: Map<string, string> }): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(readFileSync(new URL(`pkg/${file}`, dir)));
  const found = createHash('sha256').update(bytes).digest('hex');
  if (found !== pins.get(file)) {
    throw new Error(
      `${file} has SHA-256 ${found}, artifact.sha256 says ${pins.get(file) ?? 'nothing'}: not the pinned engine`,
    );
  }
  return bytes;
}

type Classes = Omit<ThresholdEngine, 'build'>;
type Glue = Classes & { initSync(p: { module: Uint8Array }): void };

/**
 * The glue is run from the bytes that were checked (a data URL), not from the file, which could change in between.
 * One instance a thread.
 */
async function loadWasm(dir: URL): Promise<ThresholdEngine> {
  const pins = pinnedDigests(dir);
  const module = readPinned(WASM, { dir, pins });
  const source = Buffer.from(readPinned(GLUE, { dir, pins })).toString('base64');
  const glue = (await import(`data:text/javascript;base64,${source}`)) as Glue;
  glue.initSync({ module });
  return engineOf('wasm', glue);
}

function loadNative(dir: URL): ThresholdEngine {
  const file = fileURLToPath(new URL(`pkg/${NATIVE}`, dir));
  if (!existsSync(file))
    throw new Error(`there is no native engine at ${file}: run "npm run engine:native" or choose wasm`);
  return engineOf('native', createRequire(import.meta.url)(file) as Classes);
}

/** Only what the interface names: the glue has more. */
function engineOf(build: ThresholdEngine['build'], classes: Classes): ThresholdEngine {
  const { KeyShare, DkgSession, RefreshSession, CompleteRefreshSession, SignSession } = classes;
  return { build, KeyShare, DkgSession, RefreshSession, CompleteRefreshSession, SignSession };
}

/**
 * Loads the engine. The WebAssembly build is refused unless it and its glue have the SHA-256 that artifact.sha256 pins;
 * the native build is what the operator compiled, and is trusted as such.
 * @param dir where `artifact.sha256` and `pkg/` are; only tests name another
 */
export async function loadEngine(choice: EngineChoice, dir: URL = here): Promise<ThresholdEngine> {
  const native = choice === 'native' || (choice === 'auto' && existsSync(new URL(`pkg/${NATIVE}`, dir)));
  return native ? loadNative(dir) : loadWasm(dir);
}
