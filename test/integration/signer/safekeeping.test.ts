import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Address, createPublicClient, erc20Abi, http } from 'viem';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { deriveEvmAddress } from '../../../shared/chain/evm/derive-address.ts';
import { familyOf } from '../../../shared/chain/families.ts';
import { createSignerTransport, type SignerPeer, type SignerTransport } from '../../../signer/call.ts';
import { createSignerClient, type SignerClient } from '../../../signer/client.ts';
import { coordinateSign } from '../../../signer/coordinate-sign.ts';
import { SignerUnavailable } from '../../../signer/errors.ts';
import { parsePublicIdentity } from '../../../signer/identity.ts';
import { rotateKek } from '../../../signer/init.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import type { Transfer } from '../../../signer/recover/sweep.ts';
import type { SignerStatus } from '../../../signer/status.ts';
import { startTestChain, type TestChain } from '../../support/anvil.ts';
import { nativeTransfer, signRequestFor, type TestKey } from '../../support/payments.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';

// Keys and their refreshes are computed, here by three signers on one machine beside another test.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const run = promisify(execFile);
const cli = fileURLToPath(new URL('../../../signer/cli/main.ts', import.meta.url));

const recovery = fileURLToPath(new URL('../../../signer/recover/main.ts', import.meta.url));

interface Recovered {
  keys: { keyId: string; epoch: number; wallets?: { path: string; address: Address }[]; transfers?: Transfer[] }[];
  unrecovered: { keyId: string; reason: string }[];
}

/** Three signers that make keys and shares, and many processes, on a busy machine. */
const TIMEOUT_MS = 180_000;

describe('signers with backups', { timeout: TIMEOUT_MS }, () => {
  const home = mkdtempSync(join(tmpdir(), 'purser-safekeeping-'));
  const identityFile = join(home, 'backup.key');
  const backupDir = (party: Party) => join(home, `backups-${party}`);
  const backupFile = (party: Party) => join(backupDir(party), `signer-${party}.backup`);
  const peers = new Map<Party, SignerPeer>();
  let signers: TestSigners;
  let client: SignerClient;
  let operator: SignerClient;
  let transport: SignerTransport;
  let key: TestKey;
  let nonce = 0;

  beforeAll(async () => {
    const { recipient } = await command<{ recipient: string }>('backup-key', '--file', identityFile);
    for (const party of PARTIES) mkdirSync(backupDir(party));
    signers = await startSigners({
      env: (party) => ({ PURSER_SIGNER_BACKUP_DIR: backupDir(party), PURSER_SIGNER_BACKUP_RECIPIENT: recipient }),
    });
    client = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity });
    operator = createSignerClient({ signers: signers.endpoints, identity: signers.operatorIdentity, role: 'operator' });
    transport = createSignerTransport({ identity: signers.coordinatorIdentity, now: () => new Date() });
    for (const { party, url, publicKey } of signers.endpoints) {
      peers.set(party, { party, url, identity: await parsePublicIdentity(publicKey) });
    }
    key = await client.generateKey({ keyId: 'ckey_kept' });
  }, TIMEOUT_MS);
  afterAll(async () => {
    client?.close();
    operator?.close();
    transport?.close();
    await signers?.stop();
    rmSync(home, { recursive: true, force: true });
  });

  /** One command of the operator, as a process of its own. */
  async function command<T>(...args: string[]): Promise<T> {
    const env = {
      PATH: process.env.PATH,
      ...(signers && {
        PURSER_SIGNERS: JSON.stringify(signers.endpoints),
        PURSER_OPERATOR_KEY_FILE: signers.operatorIdentityFile,
      }),
    };
    const { stdout } = await run(process.execPath, [cli, ...args, '--json'], { env });
    return JSON.parse(stdout) as T;
  }
  /** A payment of its own each time, under a receipt of its own. */
  async function signByPair(a: Party, b: Party, by = key) {
    nonce += 1;
    const transaction_id = `txn_${nonce}`;
    return coordinateSign(transport, {
      pair: [peers.get(a)!, peers.get(b)!],
      request: await signRequestFor(by, {
        policyKey: signers.policyKey,
        transaction: nativeTransfer({ nonce }),
        receipt: (valid) => ({ ...valid, transaction_id }),
      }),
      timeoutMs: 40_000,
      signal: AbortSignal.timeout(120_000),
    });
  }
  async function recover(first: string, second: string, ...more: string[]): Promise<Recovered> {
    const files = ['--backup', first, '--backup', second, '--identity', identityFile];
    const { stdout } = await run(process.execPath, [recovery, ...files, ...more, '--json']);
    return JSON.parse(stdout) as Recovered;
  }
  const olderFile = (party: Party) => join(home, `older-${party}.backup`);
  const statusOf = async (party: Party) => (await client.status()).find((each) => each.party === party) as SignerStatus;
  const dirOf = (party: Party) => dirname(signers.dataDirOf(party));
  const kekFileOf = (party: Party) => join(dirOf(party), 'kek');
  const restore = (party: Party, file = backupFile(party)) =>
    command<{ keys: number; shares: number }>(
      ...['restore', '--party', `${party}`, '--file', file, '--identity', identityFile],
      ...['--data-dir', signers.dataDirOf(party), '--kek-file', kekFileOf(party)],
    );

  it('have each share in the backup before the key is ready, and never in clear', async () => {
    for (const party of PARTIES) {
      const { backup } = await statusOf(party);
      expect(backup).toMatchObject({ file: backupFile(party), error: null });
      expect(backup!.bytes).toBeGreaterThan(100_000);
    }
  });

  it('make no key while one of them cannot write its backup, say why, and sign on', async () => {
    renameSync(backupDir(2), `${backupDir(2)}.away`);
    writeFileSync(backupDir(2), 'a file where the directory should be');
    const making = client.generateKey({ keyId: 'ckey_refused' });
    await expect(making).rejects.toThrow(SignerUnavailable);
    await expect(making).rejects.toThrow(
      /key ckey_refused was not made: signer 2 cannot write its backup .*signer-2\.backup \(ENOTDIR.*\): it takes part in no new key and no refresh until it can; signing goes on/,
    );
    await expect(signByPair(2, 3)).resolves.toHaveProperty('signature');
    await expect(signByPair(1, 2)).resolves.toHaveProperty('signature');
    expect((await statusOf(2)).backup!.error).toMatch(/cannot write its backup/);
    expect(signers.output()).toMatch(/"alert":"backup_failed"/);
    const failed = await command<never>('backup').catch((error: { code: number; stdout: string }) => error);
    expect(failed).toMatchObject({ code: 1 });
    rmSync(backupDir(2));
    renameSync(`${backupDir(2)}.away`, backupDir(2));
    const { signers: written } = await command<{ signers: { party: Party; error: string | null }[] }>('backup');
    expect(written.map(({ party, error }) => [party, error])).toEqual(PARTIES.map((party) => [party, null]));
  });

  it('take up a new key-encryption key while they sign, and need the old one no more', async () => {
    const file = kekFileOf(1);
    const old = readFileSync(file, 'utf8');
    const { current, earlier } = rotateKek({ dir: dirOf(1) });
    let isDone = false;
    let signatures = 0;
    const signing = (async () => {
      for (; !isDone; signatures++) await signByPair(1, signatures % 2 === 0 ? 2 : 3);
    })();
    await vi.waitFor(
      async () => expect((await statusOf(1)).kek).toEqual({ current, earlier: [{ id: earlier[0], shares: 0 }] }),
      { timeout: 60_000, interval: 50 },
    );
    isDone = true;
    await signing;
    expect(signatures).toBeGreaterThan(0);

    const [added] = readFileSync(file, 'utf8').split('\n');
    await signers.kill(1);
    writeFileSync(file, old);
    await expect(signers.restart(1)).rejects.toThrow(
      /signer: PURSER_SIGNER_KEK_FILE .*kek does not hold every key-encryption key that is in use: 1 share is sealed under [0-9a-f]{16}, it holds [0-9a-f]{16}; put the missing one below the others/,
    );
    writeFileSync(file, `${added}\n`);
    await signers.restart(1);
    await expect(signByPair(1, 2)).resolves.toHaveProperty('signature');
    expect((await statusOf(1)).kek).toEqual({ current, earlier: [] });
  });

  it('come back from a backup after their directory was deleted: sign nothing before a repair, and then with everybody', async () => {
    await signers.kill(2);
    rmSync(signers.dataDirOf(2), { recursive: true });
    expect(await restore(2)).toMatchObject({ keys: 1, shares: 1, bytesIgnored: 0 });
    await signers.restart(2);
    await expect(signByPair(1, 2)).rejects.toThrow(/records/);
    await expect(signByPair(1, 3)).resolves.toHaveProperty('signature');
    await command('repair', '--party', '2');
    for (const other of [1, 3] as const) await expect(signByPair(2, other)).resolves.toHaveProperty('signature');
  });

  it('come back from a backup that is older than a refresh and than a key', async () => {
    for (const party of [2, 3] as const) copyFileSync(backupFile(party), olderFile(party));
    await client.refreshKey({ keyId: key.keyId });
    const later = await client.generateKey({ keyId: 'ckey_later' });
    // The machine is lost with the backups beside it; the copy elsewhere is older.
    await signers.kill(2);
    for (const lost of [signers.dataDirOf(2), backupFile(2)]) rmSync(lost, { recursive: true });
    expect(await restore(2, olderFile(2))).toMatchObject({ keys: 1, shares: 1 });
    await signers.restart(2);
    await expect(signByPair(2, 3)).rejects.toThrow();
    await expect(signByPair(1, 3)).resolves.toHaveProperty('signature');
    const repaired = await command<{ keys: number; failed: object[] }>('repair', '--party', '2');
    expect(repaired).toMatchObject({ keys: 2, failed: [] });
    for (const other of [1, 3] as const) {
      await expect(signByPair(2, other)).resolves.toHaveProperty('signature');
      await expect(signByPair(other, 2, later)).resolves.toHaveProperty('signature');
    }
  });

  describe('of which two are lost', () => {
    let chain: TestChain;
    beforeAll(async () => {
      chain = await startTestChain();
      await command('backup');
      for (const party of [1, 2] as const) await signers.kill(party);
    }, TIMEOUT_MS);
    afterAll(() => chain?.stop());

    const pathOf = (index: number) => `m/44/60/0/0/${index}`;
    const addressOf = (index: number) => deriveEvmAddress({ ...key, path: pathOf(index) });
    const transferTo = async (to: Address, ...more: string[]) =>
      (
        await recover(
          ...[backupFile(1), backupFile(2), '--key', key.keyId, '--indexes', '5-8'],
          ...['--to', to, '--rpc', chain.rpcUrl, '--token', chain.usdcAddress, ...more],
        )
      ).keys[0]!.transfers!;

    it('give the same wallets again from two backups of one epoch, also from an older pair', async () => {
      const newest = await recover(backupFile(1), backupFile(2), '--indexes', '0-7');
      expect(newest.keys.map(({ keyId }) => keyId)).toEqual(['ckey_kept', 'ckey_later']);
      const [kept] = newest.keys;
      expect(kept!.wallets![7]).toEqual({ path: pathOf(7), address: addressOf(7) });
      const older = await recover(olderFile(2), olderFile(3), '--indexes', '0-7');
      expect(older.keys).toEqual([{ ...kept, epoch: 1 }]);
    });

    it.each(['bip122:0f9188f13cb7b2c71f2a335e3a4fc328', 'tron:0x2b6653dc'])('give those of %s', async (chain) => {
      const family = familyOf(chain);
      const path = `m/44/${family.coinType(chain)}/0/0/7`;
      const ofChain = ['--key', key.keyId, '--chain', chain, '--indexes', '7'];
      const { keys } = await recover(backupFile(1), backupFile(2), ...ofChain);
      const address = family.deriveAddress({ ...key, path, chain });
      expect(keys).toMatchObject([{ chain, wallets: [{ path, address }] }]);
    });

    it('say of backups of different epochs which ones to look for', async () => {
      const failed = await recover(backupFile(1), olderFile(3)).catch(
        (error: { code: number; stdout: string }) => error,
      );
      expect(failed).toMatchObject({ code: 1 });
      const { keys, unrecovered } = JSON.parse((failed as { stdout: string }).stdout) as Recovered;
      expect(keys).toEqual([]);
      expect(unrecovered.map(({ keyId }) => keyId)).toEqual(['ckey_kept', 'ckey_later']);
      expect(unrecovered[0]!.reason).toMatch(
        /never fit together; look for a backup of signer 3 that was written after/,
      );
      expect(unrecovered[1]!.reason).toMatch(/does not have it; look for a backup of signer 3 that was written after/);
    });

    it('have their wallets emptied: what would be sent is told, and sent when it is asked for', async () => {
      const to = privateKeyToAddress(generatePrivateKey());
      await chain.fund(addressOf(7), { eth: '2', usdc: '100' });
      await chain.fund(addressOf(5), { eth: '0', usdc: '3' });
      const balances = async () => {
        const onChain = createPublicClient({ transport: http(chain.rpcUrl) });
        const token = { abi: erc20Abi, address: chain.usdcAddress, functionName: 'balanceOf', args: [to] } as const;
        return [await onChain.getBalance({ address: to }), await onChain.readContract(token)] as const;
      };
      const lacking = {
        path: pathOf(5),
        asset: chain.usdcAddress,
        problem: expect.stringMatching(/needs \d+ wei more/),
      };
      const told = (await transferTo(to).catch(
        (error: { stdout: string }) => JSON.parse(error.stdout).keys[0].transfers,
      )) as Transfer[];
      expect(told).toMatchObject([
        lacking,
        { path: pathOf(7), asset: chain.usdcAddress, amountMinor: '100000000' },
        { path: pathOf(7), asset: 'native' },
      ]);
      expect(told.some(({ hash }) => hash)).toBe(false);
      expect(await balances()).toEqual([0n, 0n]);
      await chain.fund(addressOf(5), { eth: '1', usdc: '3' });
      const sent = await transferTo(to, '--send');
      expect(sent.map(({ path, asset, problem }) => [path, asset, problem])).toEqual([
        [pathOf(5), chain.usdcAddress, undefined],
        [pathOf(5), 'native', undefined],
        [pathOf(7), chain.usdcAddress, undefined],
        [pathOf(7), 'native', undefined],
      ]);
      const [wei, usdc] = await balances();
      expect(usdc).toBe(103_000_000n);
      expect(wei).toBeGreaterThan(2_990_000_000_000_000_000n);
    });

    it('are not put together without the identity, or with a command line that is wrong', async () => {
      const other = join(home, 'other.key');
      await command('backup-key', '--file', other);
      const files = ['--backup', backupFile(1), '--backup', backupFile(2)];
      const errorOf = (...args: string[]) =>
        run(process.execPath, [recovery, ...args, '--json']).then(
          () => 'none',
          (error: { stderr: string }) => error.stderr,
        );
      expect(await errorOf(...files, '--identity', other)).toMatch(
        /no identity that was given opens it; it is for age1/,
      );
      expect(await errorOf('--backup', backupFile(1), '--identity', identityFile)).toMatch(/must be given twice/);
      expect(await errorOf(...files, '--identity', identityFile, '--send')).toMatch(/--send needs --to and --rpc/);
    });
  });
});
