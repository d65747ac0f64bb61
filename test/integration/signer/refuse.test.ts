import { randomBytes, randomUUID } from 'node:crypto';
import { CompactSign, generateKeyPair } from 'jose';
import { encodeFunctionData, erc20Abi, zeroAddress } from 'viem';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { PolicyReceipt, TransferAuthorization } from '../../../shared/domain/receipt.ts';
import { signReceipt } from '../../../shared/receipt.ts';
import { createSignerTransport, type SignerPeer, type SignerTransport } from '../../../signer/call.ts';
import { createSignerClient } from '../../../signer/client.ts';
import type { SignRequest } from '../../../signer/coordinate-sign.ts';
import { openMessage, sealMessage } from '../../../signer/envelope.ts';
import { loadCoordinatorIdentity, parsePublicIdentity } from '../../../signer/identity.ts';
import { othersThan, PARTIES, type Party } from '../../../signer/parties.ts';
import { BODY_BYTES_MAX, REQUEST_HEADER, sha256, signRequest } from '../../../signer/wire.ts';
import { readEnvelope } from '../../support/hostile-envelope.ts';
import {
  authorizationRequestFor,
  nativeTransfer,
  RECIPIENT,
  signRequestFor,
  type TestKey,
  TOKEN,
  tokenTransfer,
} from '../../support/payments.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';

const TIMEOUT_MS = 10_000;
const OTHER = '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC';

let signers: TestSigners;
let transport: SignerTransport;
let key: TestKey;
const peers = new Map<Party, SignerPeer>();
let session = '';

const peer = (party: Party) => peers.get(party)!;
const freshSession = () => {
  session = randomBytes(32).toString('hex');
  return session;
};

beforeAll(async () => {
  signers = await startSigners();
  transport = createSignerTransport({ identity: signers.coordinatorIdentity, now: () => new Date() });
  for (const { party, url, publicKey } of signers.endpoints) {
    peers.set(party, { party, url, identity: await parsePublicIdentity(publicKey) });
  }
  const client = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity });
  key = await client.generateKey({ keyId: 'ckey_main' });
  client.close();
});
afterAll(async () => {
  transport?.close();
  await signers?.stop();
});

/** Asks one signer, as a coordinator that checks nothing would. */
function ask(party: Party, request: SignRequest): Promise<{ message: string }> {
  const body = { ...request, counterparty: othersThan(party)[0]! };
  return transport.call(peer(party), { path: '/v1/sign/start', session: freshSession(), body, timeoutMs: TIMEOUT_MS });
}

async function everySignerRefuses(request: SignRequest, code: string, message: RegExp): Promise<void> {
  for (const party of PARTIES) {
    await expect(ask(party, request)).rejects.toMatchObject({ party, code, message: expect.stringMatching(message) });
  }
}

describe('each signer by itself refuses', () => {
  const intent = (changes: Partial<PolicyReceipt['intent']>) => (r: PolicyReceipt) => ({
    ...r,
    intent: { ...r.intent, ...changes },
  });
  const wallet = (changes: Partial<PolicyReceipt['wallet']>) => (r: PolicyReceipt) => ({
    ...r,
    wallet: { ...r.wallet, ...changes },
  });

  it('nothing about a valid request', async () => {
    for (const party of PARTIES) {
      const request = await signRequestFor(key, { policyKey: signers.policyKey });
      await expect(ask(party, request)).resolves.toHaveProperty('message');
    }
  });

  it.each([
    ['recipient', intent({ to: OTHER }), /^recipient is/],
    ['amount', intent({ amount_minor: '5000000000000000001' }), /^amount is 5000000000000000000, the receipt allows/],
    ['chain', intent({ chain: 'eip155:1' }), /^chain is eip155:31337, the receipt allows eip155:1/],
    ['asset', intent({ asset: TOKEN }), /^asset is native/],
    ['fee ceiling', intent({ max_fee_minor: '41999999999999' }), /^fee of up to 42000000000000 wei is above/],
    ['key id', wallet({ key_id: 'ckey_other' }), /^wallet key id is/],
    ['path', wallet({ path: 'm/44/60/0/0/8' }), /^wallet path is/],
    ['wallet address', wallet({ address: OTHER }), /^wallet address is/],
  ])('a receipt for another %s', async (_, receipt, message) => {
    await everySignerRefuses(
      await signRequestFor(key, { policyKey: signers.policyKey, receipt }),
      'intent_mismatch',
      message,
    );
  });

  it('a wallet address that its own share does not have, also when the receipt names it', async () => {
    const request = await signRequestFor(key, { policyKey: signers.policyKey, receipt: wallet({ address: OTHER }) });
    await everySignerRefuses(
      { ...request, address: OTHER },
      'intent_mismatch',
      /^wallet address is .* at m\/44\/60\/0\/0\/7 has 0x/,
    );
  });

  it('a receipt that has expired, beyond the tolerance for clocks', async () => {
    const expired = (ageSeconds: number) =>
      signRequestFor(key, {
        policyKey: signers.policyKey,
        receipt: (r) => ({ ...r, exp: Math.floor(Date.now() / 1000) - ageSeconds }),
      });
    await everySignerRefuses(await expired(31), 'receipt_expired', /expired/);
    await expect(ask(1, await expired(10))).resolves.toHaveProperty('message');
  });

  it('a receipt by another key, of another type, with another algorithm, or changed', async () => {
    const { privateKey: other } = await generateKeyPair('EdDSA');
    await everySignerRefuses(await signRequestFor(key, { policyKey: other }), 'receipt_invalid', /does not verify/);
    const valid = await signRequestFor(key, { policyKey: signers.policyKey });
    const [header, payload, signature] = valid.receipt.split('.') as [string, string, string];
    const claims = Buffer.from(payload, 'base64url');
    const untyped = await new CompactSign(claims)
      .setProtectedHeader({ alg: 'EdDSA', typ: 'JWT' })
      .sign(signers.policyKey);
    const unsigned = `${Buffer.from('{"alg":"none","typ":"purser-receipt+jwt"}').toString('base64url')}.${payload}.`;
    const changed = Buffer.from(claims.toString().replace('dec_1', 'dec_2')).toString('base64url');
    for (const receipt of [untyped, unsigned, `${header}.${changed}.${signature}`, 'a.b.c', '']) {
      await everySignerRefuses({ ...valid, receipt }, 'receipt_invalid', /receipt does not verify/);
    }
  });

  it('a receipt whose claims are not the documented ones', async () => {
    const valid = await signRequestFor(key, { policyKey: signers.policyKey });
    const claims = JSON.parse(Buffer.from(valid.receipt.split('.')[1]!, 'base64url').toString());
    const sign = (changed: object) =>
      new CompactSign(Buffer.from(JSON.stringify(changed)))
        .setProtectedHeader({ alg: 'EdDSA', typ: 'purser-receipt+jwt' })
        .sign(signers.policyKey);
    const { transaction_id: _, ...without } = claims;
    const bent = [without, { ...claims, more: 1 }, { ...claims, intent: { ...claims.intent, amount_minor: '1e3' } }];
    for (const changed of bent) {
      await everySignerRefuses({ ...valid, receipt: await sign(changed) }, 'receipt_invalid', /is not valid at/);
    }
  });

  const transferData = encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [RECIPIENT, 7_500_000n] });
  it.each([
    ['approve', encodeFunctionData({ abi: erc20Abi, functionName: 'approve', args: [RECIPIENT, 7_500_000n] })],
    ['transferFrom', encodeFunctionData({ abi: erc20Abi, functionName: 'transferFrom', args: [OTHER, RECIPIENT, 7n] })],
    ['trailing bytes', `${transferData}00`],
    ['a word too many', `${transferData}${'00'.repeat(32)}`],
    ['missing bytes', transferData.slice(0, -2)],
    ['dirty padding', transferData.replace('a9059cbb00', 'a9059cbb01')],
    ['only a selector', '0xa9059cbb'],
    ['one byte', '0x00'],
  ])('a contract call with %s', async (_, data) => {
    const transaction = tokenTransfer({ data: data as `0x${string}` });
    await everySignerRefuses(
      await signRequestFor(key, { policyKey: signers.policyKey, transaction }),
      'unsupported_call',
      /not exactly transfer/,
    );
  });

  it('a token transfer that carries native value', async () => {
    const transaction = tokenTransfer({ valueWei: '1' });
    await everySignerRefuses(
      await signRequestFor(key, { policyKey: signers.policyKey, transaction }),
      'unsupported_call',
      /carries value 0/,
    );
  });

  it.each([
    ['native', nativeTransfer({ to: zeroAddress }), intent({ to: zeroAddress })],
    [
      'token',
      tokenTransfer({
        data: encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [zeroAddress, 7_500_000n] }),
      }),
      intent({ to: zeroAddress }),
    ],
  ])('a %s payment to the zero address, also with a receipt for it', async (_, transaction, receipt) => {
    const request = await signRequestFor(key, { policyKey: signers.policyKey, transaction, receipt });
    await everySignerRefuses(request, 'intent_mismatch', /zero address/);
  });

  const domain = (changes: Partial<TransferAuthorization['domain']>) => (valid: TransferAuthorization) => ({
    ...valid,
    domain: { ...valid.domain, ...changes },
  });
  it.each<[string, (valid: TransferAuthorization) => TransferAuthorization, RegExp]>([
    ['nonce', (valid) => ({ ...valid, nonce: `0x${'b2'.repeat(32)}` }), /^nonce is 0xb2/],
    ['last second', (valid) => ({ ...valid, validBefore: valid.validBefore + 1 }), /^valid_before is/],
    ['first second', (valid) => ({ ...valid, validAfter: 0 }), /^valid_after is 0, the receipt allows/],
    ['amount', (valid) => ({ ...valid, value: '7500001' }), /^amount is 7500001, the receipt allows 7500000/],
    ['recipient', (valid) => ({ ...valid, to: OTHER }), /^recipient is/],
    ['payer', (valid) => ({ ...valid, from: OTHER }), /^payer is/],
    ['token', domain({ verifyingContract: OTHER }), /^asset is/],
    ['chain', domain({ chainId: 1 }), /^chain is eip155:1, the receipt allows eip155:31337/],
  ])('an authorisation with another %s than its receipt allows', async (_, payload, message) => {
    const request = await authorizationRequestFor(key, { policyKey: signers.policyKey, payload });
    await everySignerRefuses(request, 'intent_mismatch', message);
  });

  it('an authorisation by the receipt of a transaction, and the other way round', async () => {
    const { policyKey } = signers;
    const authorised = await authorizationRequestFor(key, { policyKey });
    const sent = await signRequestFor(key, { policyKey, transaction: tokenTransfer() });
    await everySignerRefuses({ ...authorised, receipt: sent.receipt }, 'intent_mismatch', /receipt allows none/);
    await everySignerRefuses({ ...sent, receipt: authorised.receipt }, 'intent_mismatch', /allows an authorisation/);
  });

  it('requests that do not have the documented shape', async () => {
    const valid = await signRequestFor(key, { policyKey: signers.policyKey });
    const bent: object[] = [
      { path: "m/44'/60'/0'/0/7" },
      { path: 'm/44/60/0/0/07' },
      { payload: { kind: 'evm-transaction', transaction: { ...nativeTransfer(), accessList: [] } } },
      { payload: { kind: 'hash', hash: `0x${'00'.repeat(32)}` } },
      { payload: { kind: 'evm-transaction', transaction: nativeTransfer({ valueWei: '0x1' }) } },
      { payload: { kind: 'evm-transaction', transaction: nativeTransfer({ nonce: -1 }) } },
      { payload: { kind: 'evm-transaction', transaction: nativeTransfer({ gas: `${2n ** 64n}` }) } },
    ];
    for (const changes of bent) await everySignerRefuses({ ...valid, ...changes }, 'malformed', /./);
  });
});

describe('messages between signers', () => {
  /** Runs a signature by hand up to the answer of the joiner (2); the initiator is 1. */
  async function begin(
    bend: (p: { first: string; session: string }) => Promise<string> | string = ({ first }) => first,
  ) {
    const request = await signRequestFor(key, { policyKey: signers.policyKey });
    const options = { session: freshSession(), timeoutMs: TIMEOUT_MS };
    const { message: first } = await transport.call<{ message: string }>(peer(1), {
      path: '/v1/sign/start',
      body: { ...request, counterparty: 2 },
      ...options,
    });
    const message = await bend({ first, session });
    const joined = await transport.call<{ message: string }>(peer(2), {
      path: '/v1/sign/join',
      body: { ...request, counterparty: 1, epoch: 1, message },
      ...options,
    });
    return { first, second: joined.message, options };
  }
  const step = (party: Party, message: string) =>
    transport.call<{ message: string }>(peer(party), {
      path: '/v1/sign/step',
      session,
      body: { message },
      timeoutMs: TIMEOUT_MS,
    });
  const bad = { code: 'bad_message' };
  const over = { code: 'unknown_session' };

  afterEach(async () => {
    await transport.call(peer(1), { path: '/v1/abort', session, body: {}, timeoutMs: TIMEOUT_MS });
    const request = await signRequestFor(key, { policyKey: signers.policyKey });
    await expect(ask(1, request)).resolves.toHaveProperty('message'); // no ban, no harm to the next run
  });

  it('end the run when one bit of one is changed', async () => {
    const flip = ({ first }: { first: string }) => {
      const parts = first.split('.');
      const bytes = Buffer.from(parts[3]!, 'base64url');
      bytes[1000]! ^= 1;
      return [...parts.slice(0, 3), bytes.toString('base64url'), parts[4]].join('.');
    };
    await expect(begin(flip)).rejects.toMatchObject(bad);
    await expect(step(2, 'x')).rejects.toMatchObject(over);
  });

  it('end the run when one is sent twice', async () => {
    const { second } = await begin();
    const { message: third } = await step(1, second);
    await expect(step(1, second)).rejects.toMatchObject(over);
    await expect(step(2, third)).resolves.toHaveProperty('signature');
    await expect(step(2, third)).rejects.toMatchObject(over);
  });

  it('end the run when one is sent to the wrong signer or in the wrong round', async () => {
    const { second } = await begin();
    await expect(step(2, second)).rejects.toMatchObject(bad);
    await expect(step(2, second)).rejects.toMatchObject(over);
    const { first } = await begin();
    await expect(step(1, first)).rejects.toMatchObject(bad);
    await expect(step(1, first)).rejects.toMatchObject(over);
  });

  it('end the run when one comes from another run', async () => {
    const { second } = await begin();
    await begin();
    await expect(step(1, second)).rejects.toMatchObject({ ...bad, message: expect.stringMatching(/is for session/) });
    await expect(step(1, second)).rejects.toMatchObject(over);
  });

  it('end the run when one is signed by a third signer, or is of another protocol', async () => {
    const third = await signers.identityOf(3);
    const own = await signers.identityOf(1);
    const body = Uint8Array.of(0);
    const forged = (p: { session: string; from: Party; protocol: 'sign' | 'keygen' }) =>
      sealMessage(
        { own: p.protocol === 'keygen' ? own : third, receiver: peer(2).identity },
        { context: { session: p.session, protocol: p.protocol, round: 1, from: p.from, to: 2, subject: '' }, body },
      );
    await expect(begin(({ session }) => forged({ session, from: 1, protocol: 'sign' }))).rejects.toMatchObject(bad);
    await expect(begin(({ session }) => forged({ session, from: 3, protocol: 'sign' }))).rejects.toMatchObject(bad);
    await expect(begin(({ session }) => forged({ session, from: 1, protocol: 'keygen' }))).rejects.toMatchObject({
      ...bad,
      message: expect.stringMatching(/is for protocol keygen, expected sign/),
    });
  });

  it('cannot be read by the coordinator or by a third signer', async () => {
    const { first } = await begin();
    const { context } = await readEnvelope(await signers.identityOf(2), first);
    const open = async (party: Party) =>
      openMessage({ own: await signers.identityOf(party), sender: peer(1).identity }, { context, message: first });
    await expect(open(3)).rejects.toMatchObject(bad);
    await expect(open(2)).resolves.toHaveProperty('length');
  });

  it('are refused for a run id that was used before', async () => {
    await begin();
    const request = await signRequestFor(key, { policyKey: signers.policyKey });
    const again = () =>
      transport.call(peer(1), {
        path: '/v1/sign/start',
        session,
        body: { ...request, counterparty: 2 },
        timeoutMs: TIMEOUT_MS,
      });
    await expect(again()).rejects.toMatchObject({ ...bad, message: expect.stringMatching(/was used before/) });
    await expect(again()).rejects.toMatchObject(bad);
  });

  it('of key generation are refused out of order', async () => {
    const options = { session: freshSession(), timeoutMs: 40_000 };
    const keyId = `ckey_${randomUUID()}`;
    type Outbound = { messages: { to: Party; message: string }[] };
    const outs = await Promise.all(
      PARTIES.map((party) =>
        transport.call<Outbound>(peer(party), { path: '/v1/keygen/start', body: { keyId }, ...options }),
      ),
    );
    const inbox = PARTIES.flatMap((from, i) =>
      outs[i]!.messages.filter(({ to }) => to === 1).map(({ message }) => ({ from, message })),
    );
    const send = (round: number) =>
      transport.call(peer(1), { path: '/v1/keygen/step', body: { round, messages: inbox }, ...options });
    await expect(send(2)).rejects.toMatchObject({
      ...bad,
      message: expect.stringMatching(/round 2 was sent, round 1/),
    });
    await expect(send(1)).rejects.toMatchObject(over);
    for (const party of [2, 3] as const) {
      await transport.call(peer(party), { path: '/v1/abort', body: {}, ...options });
    }
  });
});

describe('requests to a signer', () => {
  const url = (path: string) => `${peer(1).url}${path}`;
  async function post(p: { path?: string; token?: string; body?: Buffer<ArrayBuffer> }) {
    const path = p.path ?? '/v1/abort';
    const body = p.body ?? Buffer.from('{}');
    const headers = p.token === undefined ? {} : { [REQUEST_HEADER]: p.token };
    const response = await fetch(url(path), { method: 'POST', headers, body });
    return { status: response.status, ...((await response.json()) as { code: string; message: string }) };
  }
  const token = async (p: Partial<Parameters<typeof signRequest>[1]> = {}) => {
    const claims = {
      to: 1,
      path: '/v1/abort',
      session: '0'.repeat(64),
      body: Buffer.from('{}'),
      now: new Date(),
      ...p,
    } as const;
    return (await signRequest(signers.coordinatorIdentity.signingKey, claims)).token;
  };

  it('count only with the coordinator’s signature, for this signer, this path, this minute, once', async () => {
    const unauthenticated = { status: 401, code: 'unauthenticated' };
    expect(await post({})).toMatchObject(unauthenticated);
    expect(await post({ token: 'a.b.c' })).toMatchObject(unauthenticated);
    const stranger = await loadCoordinatorIdentity(signers.policyKeyFile);
    const claims = {
      to: 1,
      path: '/v1/abort',
      session: '0'.repeat(64),
      body: Buffer.from('{}'),
      now: new Date(),
    } as const;
    expect(await post({ token: (await signRequest(stranger.signingKey, claims)).token })).toMatchObject(
      unauthenticated,
    );
    expect(await post({ token: await signReceipt(signers.policyKey, receiptOf()) })).toMatchObject(unauthenticated);
    expect(await post({ token: await token({ to: 2 }) })).toMatchObject({
      ...unauthenticated,
      message: expect.stringMatching(/for signer 2/),
    });
    expect(await post({ token: await token(), path: '/v1/sign/start' })).toMatchObject(unauthenticated);
    const old = new Date(Date.now() - 31_000);
    expect(await post({ token: await token({ now: old }) })).toMatchObject({
      ...unauthenticated,
      message: expect.stringMatching(/clocks/),
    });
    const good = await token();
    expect(await post({ token: good })).toMatchObject({ status: 200 });
    expect(await post({ token: good })).toMatchObject({ status: 401, code: 'replayed' });
  });

  it('are refused when the body is not the signed one, is too large, or is no JSON', async () => {
    expect(await post({ token: await token(), body: Buffer.from('{} ') })).toMatchObject({ code: 'bad_message' });
    const huge = Buffer.alloc(BODY_BYTES_MAX + 1, 32);
    expect(await post({ token: await token({ body: huge }), body: huge })).toMatchObject({
      status: 413,
      code: 'oversize',
    });
    const text = Buffer.from('not json');
    expect(await post({ token: await token({ body: text }), body: text })).toMatchObject({ code: 'malformed' });
    expect(sha256(text)).toHaveLength(43);
  });

  it('end the run they name when they are too large', async () => {
    const request = await signRequestFor(key, { policyKey: signers.policyKey });
    await ask(1, request);
    const options = { session, timeoutMs: TIMEOUT_MS };
    const large = { path: '/v1/sign/step', body: { message: 'x'.repeat(BODY_BYTES_MAX) }, ...options } as const;
    await expect(transport.call(peer(1), large)).rejects.toThrow();
    const next = transport.call(peer(1), { path: '/v1/sign/step', body: { message: 'x' }, ...options });
    await expect(next).rejects.toMatchObject({ code: 'unknown_session' });
  });

  const receiptOf = (): PolicyReceipt => ({
    account_id: 'a',
    agent_id: 'a',
    wallet: { key_id: 'k', path: 'm', address: OTHER },
    transaction_id: 't',
    decision_id: 'd',
    intent: { chain: 'eip155:1', asset: 'native', to: OTHER, amount_minor: '1', max_fee_minor: '1' },
    iat: 0,
    exp: 4_000_000_000,
  });
});

describe('a signer that cheats inside a message that it signed', () => {
  it('is banned from the pair by the other, for good; the other pairs sign on', async () => {
    const request = await signRequestFor(key, { policyKey: signers.policyKey });
    const options = { session: freshSession(), timeoutMs: TIMEOUT_MS };
    const body = { ...request, counterparty: 2 };
    const { message } = await transport.call<{ message: string }>(peer(1), {
      path: '/v1/sign/start',
      body,
      ...options,
    });
    const { context, body: forged } = await readEnvelope(await signers.identityOf(2), message);
    forged[507]! ^= 1; // inside the oblivious transfer
    const cheat = await sealMessage(
      { own: await signers.identityOf(1), receiver: peer(2).identity },
      { context, body: forged },
    );
    const join = (run: string, sent: string) =>
      transport.call(peer(2), {
        path: '/v1/sign/join',
        session: run,
        body: { ...request, counterparty: 1, epoch: 1, message: sent },
        timeoutMs: TIMEOUT_MS,
      });
    await expect(join(session, cheat)).rejects.toMatchObject({ party: 2, code: 'protocol_fault', culprit: 1 });
    await expect(join(freshSession(), message)).rejects.toMatchObject({ code: 'banned_pair' });
    await signers.kill(2);
    await signers.restart(2);
    await expect(join(freshSession(), message)).rejects.toMatchObject({ code: 'banned_pair' });
    const client = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity });
    for (let i = 0; i < 3; i++) await expect(client.sign(request)).resolves.toHaveProperty('signature');
    client.close();
  });
});
