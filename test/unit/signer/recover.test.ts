import { createECDH, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { combineShares } from '../../../signer/recover/combine.ts';
import { type KeySharePoint, readKeySharePoint } from '../../../signer/recover/key-share.ts';
import { type BackupShares, recoverKeys } from '../../../signer/recover/recover-keys.ts';

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const scalar = fc.bigInt({ min: 1n, max: ORDER - 1n });
const bytesOf = (value: bigint) => Buffer.from(value.toString(16).padStart(64, '0'), 'hex');

function publicKeyOf(secret: bigint): Buffer {
  const ecdh = createECDH('secp256k1');
  ecdh.setPrivateKey(bytesOf(secret));
  return ecdh.getPublicKey();
}
/** Points of the line through (0, secret), as a key generation with threshold 2 makes them. */
const pointAt = (party: number, p: { secret: bigint; slope: bigint }): KeySharePoint => ({
  party,
  threshold: 2,
  value: (p.secret + BigInt(party) * p.slope) % ORDER,
});
const pairs = [
  [1, 2],
  [1, 3],
  [2, 3],
  [3, 1],
] as const;

describe('putting a key together', () => {
  it('gives the secret from every pair of points, and nothing from points of two lines', () => {
    fc.assert(
      fc.property(scalar, scalar, scalar, fc.constantFrom(...pairs), (secret, slope, other, [a, b]) => {
        const line = { secret, slope };
        const publicKey = publicKeyOf(secret);
        const key = combineShares({ shares: [pointAt(a, line), pointAt(b, line)], publicKey });
        expect(Buffer.from(key)).toEqual(bytesOf(secret));
        if (other === slope) return;
        const stray = pointAt(b, { secret, slope: other });
        expect(() => combineShares({ shares: [pointAt(a, line), stray], publicKey })).toThrow(/do not make this key/);
      }),
      { numRuns: 40 },
    );
    const own = pointAt(1, { secret: 5n, slope: 7n });
    expect(() => combineShares({ shares: [own, own], publicKey: publicKeyOf(5n) })).toThrow(
      'both shares are of signer 1',
    );
    const zero = { party: 1, threshold: 2, value: 0n };
    expect(() => combineShares({ shares: [zero, { ...zero, party: 2 }], publicKey: publicKeyOf(5n) })).toThrow(
      /do not/,
    );
  });

  it('reads the point out of a share, however long its session id, and refuses what is none', () => {
    fc.assert(
      fc.property(scalar, fc.constantFrom(1, 2, 3), fc.integer({ min: 0, max: 300 }), (value, party, length) => {
        const varint = length < 128 ? [length] : [(length & 0x7f) | 0x80, length >> 7];
        const bytes = Buffer.concat([
          Buffer.of(2, 3, party, ...varint),
          randomBytes(length),
          Buffer.of(32),
          bytesOf(value),
          randomBytes(40),
        ]);
        expect(readKeySharePoint(bytes)).toEqual({ party, threshold: 2, value });
        expect(() => readKeySharePoint(bytes.subarray(0, 3 + varint.length + length + 20))).toThrow(
          /does not begin as/,
        );
      }),
    );
    expect(() => readKeySharePoint(Buffer.alloc(100, 0xff))).toThrow(/does not begin as/);
  });
});

describe('recovery from two backups', () => {
  const minutes = (n: number) => Date.UTC(2026, 0, 1, 0, n);
  const line = { secret: 11n, slope: 13n };
  const publicKey = publicKeyOf(line.secret);
  const chainCode = Buffer.alloc(32, 1);
  /** An epoch's line has the same secret and another slope. */
  const share = (party: number, epoch: number, run = `run ${epoch}`) => ({
    epoch,
    sessionId: run,
    createdAtMs: minutes(epoch * 10),
    publicKey,
    chainCode,
    point: pointAt(party, { ...line, slope: 13n + BigInt(epoch) + BigInt(run.length) }),
  });
  const backup = (party: 1 | 2 | 3, writtenAt: number, epochs: number[], run?: string): BackupShares => ({
    file: `signer-${party}.backup`,
    party,
    writtenAtMs: minutes(writtenAt),
    keys: new Map(epochs.length === 0 ? [] : [['ckey', epochs.map((epoch) => share(party, epoch, run))]]),
  });
  const recover = (a: BackupShares, b: BackupShares) => recoverKeys([a, b]);

  it('takes the newest epoch that both have; an older pair gives the same key', () => {
    const newest = recover(backup(1, 60, [1, 2]), backup(3, 60, [2, 3]));
    expect(newest.recovered).toMatchObject([{ keyId: 'ckey', epoch: 2 }]);
    const older = recover(backup(1, 15, [1]), backup(3, 15, [1]));
    expect(older.recovered[0]!.privateKey).toEqual(newest.recovered[0]!.privateKey);
    expect(Buffer.from(older.recovered[0]!.privateKey)).toEqual(bytesOf(line.secret));
    expect([newest.unrecovered, older.unrecovered]).toEqual([[], []]);
  });

  it.each([
    [
      'of different epochs',
      backup(1, 60, [3]),
      backup(2, 25, [2]),
      'signer-1.backup holds epoch 3 and signer-2.backup epoch 2, and shares of different epochs never fit together; look for a backup of signer 2 that was written after 2026-01-01T00:30:00.000Z, when epoch 3 was made, or for one of signer 1 that was written between 2026-01-01T00:20:00.000Z and then',
    ],
    [
      'of different epochs, the other way round',
      backup(1, 25, [2]),
      backup(2, 60, [3]),
      'signer-2.backup holds epoch 3 and signer-1.backup epoch 2, and shares of different epochs never fit together; look for a backup of signer 1 that was written after 2026-01-01T00:30:00.000Z, when epoch 3 was made, or for one of signer 2 that was written between 2026-01-01T00:20:00.000Z and then',
    ],
    [
      'of which one is older than the key',
      backup(1, 60, [3]),
      backup(2, 5, []),
      'signer-2.backup, written 2026-01-01T00:05:00.000Z, does not have it; look for a backup of signer 2 that was written after 2026-01-01T00:30:00.000Z',
    ],
  ])('names the backup to look for with two %s', (_, a, b, reason) => {
    expect(recover(a, b)).toEqual({ recovered: [], unrecovered: [{ keyId: 'ckey', reason }] });
  });

  it('puts nothing together from two runs that made an epoch of the same number', () => {
    const { recovered, unrecovered } = recover(backup(1, 60, [2], 'one run'), backup(3, 60, [2], 'another'));
    expect(recovered).toEqual([]);
    expect(unrecovered).toHaveLength(1);
  });

  it('refuses two of one signer, and what is not what signers wrote', () => {
    expect(() => recover(backup(1, 1, [1]), backup(1, 2, [1]))).toThrow(
      /are both of signer 1; a key needs backups of two/,
    );
    const other = backup(3, 1, [1]);
    other.keys.get('ckey')![0]!.chainCode = Buffer.alloc(32, 2);
    expect(recover(backup(1, 1, [1]), other).unrecovered[0]!.reason).toMatch(/disagree about the chain code/);
    const damaged = backup(3, 1, [1]);
    damaged.keys.get('ckey')![0]!.point = undefined;
    expect(recover(backup(1, 1, [1]), damaged).unrecovered[0]!.reason).toMatch(/not one of this version of the engine/);
    const bent = backup(3, 1, [1]);
    bent.keys.get('ckey')![0]!.point!.value += 1n;
    expect(recover(backup(1, 1, [1]), bent).unrecovered[0]!.reason).toMatch(/do not make this key/);
  });
});
