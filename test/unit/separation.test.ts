import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type ModuleGraph, readModuleGraph } from '../support/module-graph.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The types of Node's own do not name it. */
const { WebAssembly: Wasm } = globalThis as unknown as {
  WebAssembly: {
    Module: { new (bytes: Uint8Array): object; imports(module: object): { module: string; name: string }[] };
  };
};

/** Files that work with a share, or with what opens one. */
const OF_SHARES =
  /^signer\/(engine|store|backup|recover)\/|^signer\/(store|shares|sign|keygen|refresh|repair|kek.*|compose|main|server)\.ts$/;
/** What a share, its store, its key and its engine are called in code. */
const SHARE_NAMES =
  /\b(KeyShare|StoredShare|SignerStore|SignSession|DkgSession|sealed_share|secret_?scalar|threshold_engine)\b/i;
const STORE_PACKAGES = ['node:sqlite', 'age-encryption'];

const filesWith = ({ files }: ModuleGraph, pattern: RegExp) =>
  [...files].filter(([, code]) => pattern.test(withoutComments(code))).map(([file]) => file);
const withoutComments = (code: string) => code.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');

describe('what runs outside the signers', () => {
  it.each(['api/main.ts', 'workflows/index.ts', 'api/admin.ts'])('holds nothing of a signer: %s', (entry) => {
    const graph = readModuleGraph(entry);
    expect(graph.files.size).toBeGreaterThan(10);
    expect([...graph.files.keys()].filter((file) => file.startsWith('signer/'))).toEqual([]);
    expect([...graph.packages.keys()].filter((name) => STORE_PACKAGES.includes(name))).toEqual([]);
    expect(filesWith(graph, SHARE_NAMES)).toEqual([]);
  });

  it('holds of the signers what asks them, and nothing that works with a share: the worker', () => {
    const graph = readModuleGraph('worker/main.ts');
    const ofSigners = [...graph.files.keys()].filter((file) => file.startsWith('signer/'));
    expect(ofSigners).toContain('signer/coordinate-sign.ts');
    expect(ofSigners.filter((file) => OF_SHARES.test(file))).toEqual([]);
    expect([...graph.packages.keys()].filter((name) => STORE_PACKAGES.includes(name))).toEqual([]);
    expect(filesWith(graph, SHARE_NAMES)).toEqual([]);
  });

  it('would be found to hold it: the rules see the signer itself', () => {
    const graph = readModuleGraph('signer/main.ts');
    for (const file of ['signer/engine/load.ts', 'signer/store/shares.ts', 'signer/shares.ts', 'signer/sign.ts']) {
      expect([...graph.files.keys()]).toContain(file);
      expect(file).toMatch(OF_SHARES);
    }
    expect(filesWith(graph, SHARE_NAMES)).toContain('signer/shares.ts');
    for (const name of STORE_PACKAGES) expect([...graph.packages.keys()]).toContain(name);
  });
});

describe('a signer', () => {
  const graph = readModuleGraph('signer/main.ts');
  const taken = (name: string) => [...(graph.packages.get(name) ?? [])].toSorted();

  it('uses of Node what listens and stores, and nothing that connects or starts programs', () => {
    const allowed = [
      'async_hooks',
      'crypto',
      'fs',
      'fs/promises',
      'http',
      'module',
      'os',
      'path',
      'sqlite',
      'timers/promises',
      'url',
    ];
    const ofNode = [...graph.packages.keys()]
      .filter((name) => isBuiltin(name))
      .map((name) => name.replace('node:', ''));
    expect(ofNode.filter((name) => !allowed.includes(name)).toSorted()).toEqual(['worker_threads']);
    expect(taken('node:http')).toEqual(['createServer']);
    expect(filesWith(graph, /\bcreateServer\b/).toSorted()).toEqual([
      'shared/metrics/serve-metrics.ts',
      'signer/server.ts',
    ]);
    // Threads run one file of the graph, named as such.
    expect(filesWith(graph, /\bnew Worker\b/)).toEqual(['signer/engine/worker.ts']);
  });

  it('uses few packages, and of those nothing that connects', () => {
    const packages = [...graph.packages.keys()].filter((name) => !isBuiltin(name)).toSorted();
    const allowed = [
      '@noble/curves',
      '@noble/hashes/legacy.js',
      '@scure/base',
      '@scure/bip32',
      'age-encryption',
      'jose',
      'pino',
      'prom-client',
      'viem',
      'viem/accounts',
      'zod',
    ];
    expect(packages.filter((name) => !allowed.includes(name))).toEqual([]);
    for (const name of packages) {
      const connecting = /client|transport|http|socket|ipc|remote|fetch|fallback|rpc|gateway|^custom$|^\*$|^default$/i;
      expect(
        taken(name).filter((one) => connecting.test(one)),
        name,
      ).toEqual([]);
    }
    // pino's transports are threads with a life of their own.
    expect(taken('pino')).toEqual(['pino']);
    expect(filesWith(graph, /\btransport\b/)).toEqual([]);
  });

  it('calls no function of the platform that connects, and makes no code out of text', () => {
    expect(filesWith(graph, /\b(fetch|WebSocket|EventSource|XMLHttpRequest|sendBeacon|RTCPeerConnection)\b/)).toEqual(
      [],
    );
    expect(filesWith(graph, /\beval\s*\(|\bnew Function\b|\bprocess\.(binding|dlopen|getBuiltinModule)\b/)).toEqual([]);
  });

  it('loads at run time the engine only: the pinned WebAssembly, or what the operator compiled', () => {
    expect(filesWith(graph, /\bimport\s*\(|\bcreateRequire\b|\brequire\s*\(/)).toEqual(['signer/engine/load.ts']);
    const engine = new URL('../../signer/engine/', import.meta.url);
    const wasm = new Wasm.Module(readFileSync(new URL('pkg/threshold_engine_bg.wasm', engine)));
    const asked = Wasm.Module.imports(wasm).map(({ name }) => name);
    expect(asked.length).toBeGreaterThan(0);
    expect(asked.filter((name) => /fetch|socket|http|request|send|net/i.test(name))).toEqual([]);
    const crates = readFileSync(new URL('crate/Cargo.lock', engine), 'utf8').matchAll(/^name = "([^"]+)"/gm);
    const connecting =
      /^(tokio|mio|socket2|hyper|reqwest|ureq|curl|rustls|native-tls|openssl|tungstenite|quinn|web-sys)$/;
    expect([...crates].map(([, name]) => name!).filter((name) => connecting.test(name))).toEqual([]);
  });
});

describe('the graph that all this is read from', () => {
  it('follows every way in which a file can be reached, and leaves types out', () => {
    const dir = mkdtempSync(join(tmpdir(), 'purser-graph-'));
    const write = (path: string, text: string) => {
      mkdirSync(dirname(join(dir, path)), { recursive: true });
      writeFileSync(join(dir, path), text);
    };
    try {
      write(
        'a/main.ts',
        [
          "import type { T } from '../types-only.ts';",
          "import { type U, one, two as zwei } from './named.ts';",
          "import './effect.ts';",
          "export * from './all.ts';",
          "export {\n  three,\n} from './lines.ts';",
          "import whole, { part } from 'some-package';",
          "import * as everything from 'node:net';",
          "const late = () => import('./dynamic.ts');",
          "const worker = new Worker(new URL('./thread.ts', import.meta.url));",
          'export const x: T | U = [one, zwei, whole, part, everything, late, worker];',
        ].join('\n'),
      );
      write('a/named.ts', "import './deeper.ts';\nexport const one = 1, two = 2;");
      for (const name of ['effect', 'all', 'lines', 'dynamic', 'thread', 'deeper']) write(`a/${name}.ts`, 'export {};');
      const graph = readModuleGraph('a/main.ts', dir);
      expect([...graph.files.keys()].toSorted()).toEqual(
        ['all', 'deeper', 'dynamic', 'effect', 'lines', 'main', 'named', 'thread'].map((name) => `a/${name}.ts`),
      );
      expect(graph.packages).toEqual(
        new Map([
          ['some-package', new Set(['part', 'default'])],
          ['node:net', new Set(['*'])],
        ]),
      );
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });

  it('has every import of the programs in it: none is written in a way that it does not see', () => {
    for (const entry of ['api/main.ts', 'worker/main.ts', 'workflows/index.ts', 'signer/main.ts']) {
      for (const [file, code] of readModuleGraph(entry, root).files) {
        const written = withoutComments(code).match(/^\s*import\b(?!\s*\.meta|\s*\()/gm)?.length ?? 0;
        const seen = withoutComments(code).match(/^\s*import\b[\w$\s{},*]*(\bfrom\s*)?['"]/gm)?.length ?? 0;
        expect(seen, file).toBe(written);
      }
    }
  });
});
