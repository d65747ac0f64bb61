import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { LOOPBACK } from '../../dev/ports.ts';
import { addressBytes, addressOf, bytesOf, hexOf } from './tron-bytes.ts';
import { type DoubleBlock, type Included, TronChainDouble } from './tron-chain-double.ts';
import { callToken, Refusal } from './tron-ledger-double.ts';

type Json = Readonly<Record<string, unknown>>;

/** What the double does wrong until it is told otherwise. */
export interface TronFaults {
  /** Connections are reset before anything is read. */
  readonly down?: boolean;
  /** Requests on these paths are read and never answered. */
  readonly hang?: (path: string) => boolean;
  /** Broadcasts are answered as if all were well, and forgotten. */
  readonly dropBroadcasts?: boolean;
  /** The answer of a broadcast is lost on its way back; the bytes are there. */
  readonly loseBroadcastAnswers?: boolean;
  /** Answered instead. */
  readonly status?: 403 | 429 | 503;
  /** Has the last word about each answer, to lie. */
  readonly answer?: (path: string, body: Json, answer: unknown) => unknown;
}

export interface TronNodeDouble {
  readonly url: string;
  /** Blocks, time, balances, tokens and reorganisations, all in the test's hands. */
  readonly chain: TronChainDouble;
  /** Takes the place of all faults set before. */
  set(faults: TronFaults): void;
  /** Paths that were asked, in order. */
  readonly asked: readonly { readonly path: string; readonly body: Json }[];
  /** Makes a block as often, with the clock's time, until the double is stopped. */
  produceEvery(ms: number): void;
  stop(): Promise<void>;
}

/**
 * A double of a Tron full node's HTTP API, for no node can be had where the tests run. It reads transactions by code of
 * its own and holds them against the rules of java-tron: signature, expiry, reference block, repeats, balances,
 * bandwidth and energy. Answers look as a full node's do: numbers that are zero are left out, what is not there is `{}`.
 * @param p.chain CAIP-2 id @param p.share of another double: this one is a second node of the same chain
 * @see https://developers.tron.network/reference, https://github.com/tronprotocol/java-tron
 */
export async function startTronNodeDouble(
  p: { chain?: string; port?: number; share?: TronChainDouble } = {},
): Promise<TronNodeDouble> {
  const chain = p.share ?? new TronChainDouble({ chain: p.chain ?? 'tron:0xcd8690dc', nowMs: Date.now() });
  let faults: TronFaults = {};
  const asked: { path: string; body: Json }[] = [];
  const sockets = new Set<Socket>();
  let producing: NodeJS.Timeout | undefined;

  const server = createServer((request, response) => {
    serve(request, response).catch(() => request.socket.destroy());
  });
  server.on('connection', (socket) => {
    if (faults.down) return void socket.resetAndDestroy();
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (faults.down) return void request.socket.resetAndDestroy();
    const { pathname: path, searchParams } = new URL(request.url!, 'http://node');
    const text = Buffer.concat(await request.toArray()).toString('utf8');
    const body: Json = text ? JSON.parse(text) : Object.fromEntries(searchParams);
    asked.push({ path, body });
    if (faults.hang?.(path)) return;
    if (faults.status) return void response.writeHead(faults.status).end('Too many requests.');
    const answer = answerTo(path, body);
    if (answer === undefined) return void response.writeHead(404).end('Not Found');
    if (path.startsWith('/wallet/broadcast') && faults.loseBroadcastAnswers)
      return void request.socket.resetAndDestroy();
    const said = faults.answer?.(path, body, answer) ?? answer;
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(said));
  }

  function answerTo(path: string, body: Json): unknown {
    const [, api, method] = path.split('/');
    try {
      if (api === 'wallet' && method === 'broadcasthex') return broadcast(String(body.transaction));
      const solid = api === 'walletsolidity';
      if (api !== 'wallet' && !solid) return undefined;
      return endpoints[method ?? '']?.({ chain, body, solid });
    } catch (error) {
      return { Error: `class java.lang.IllegalArgumentException : ${(error as Error).message}` };
    }
  }

  function broadcast(raw: string): Json {
    if (faults.dropBroadcasts) return { result: true, code: 'SUCCESS', message: '', transaction: '{}', txid: '' };
    try {
      const { id } = chain.push(raw);
      return { result: true, code: 'SUCCESS', message: '', transaction: '{}', txid: id };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { result: false, code: error.code, message: error.message, transaction: '{}' };
    }
  }

  await new Promise<void>((resolve) => server.listen(p.port ?? 0, LOOPBACK, resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${LOOPBACK}:${port}`,
    chain,
    asked,
    set(next) {
      faults = next;
      if (next.down) for (const socket of sockets) socket.resetAndDestroy();
    },
    produceEvery(ms) {
      clearInterval(producing);
      producing = setInterval(
        () => chain.produce({ timestampMs: Math.max(Date.now(), chain.head.timestampMs + 1) }),
        ms,
      );
    },
    async stop() {
      clearInterval(producing);
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface Question {
  readonly chain: TronChainDouble;
  readonly body: Json;
  /** Asked of the interface that knows only what is solidified. */
  readonly solid: boolean;
}

const endpoints: Readonly<Record<string, (question: Question) => unknown>> = {
  getnowblock: ({ chain, solid }) => writeBlock(solid ? chain.solid : chain.head),
  getblockbynum: ({ body, ...q }) => writeIf(blockAt(q, Number(body.num))),
  getblock({ body, ...q }) {
    const at = body.id_or_num === undefined ? newest(q) : blockNamed(q, String(body.id_or_num));
    return at && body.detail !== true ? headerOf(at) : writeIf(at);
  },
  getblockbyid: ({ body, ...q }) => writeIf(blockNamed(q, String(body.value))),
  getblockbylimitnext({ body, ...q }) {
    const [start, end] = [Number(body.startNum), Number(body.endNum)];
    if (!(start >= 0 && end > start && end - start <= 100)) return {};
    const numbers = Array.from({ length: end - start }, (_, at) => start + at);
    return { block: numbers.flatMap((number) => blockAt(q, number) ?? []).map(writeBlock) };
  },
  getblockbylatestnum({ chain, body }) {
    const numbers = Array.from({ length: Number(body.num) }, (_, at) => chain.head.number - at).reverse();
    return { block: numbers.flatMap((number) => chain.block(number) ?? []).map(writeBlock) };
  },
  gettransactionbyid({ chain, body, solid }) {
    const id = String(body.value);
    // As with a real node, what waits is found as well.
    const included = chain.find(id, { solid })?.included ?? (solid ? undefined : chain.findPending(id));
    return included ? writeTransaction(included) : {};
  },
  gettransactionfrompending({ chain, body }) {
    const included = chain.findPending(String(body.value));
    return included ? writeTransaction(included) : {};
  },
  gettransactionlistfrompending: ({ chain }) => ({ txId: chain.pendingIds }),
  getpendingsize: ({ chain }) => ({ pendingSize: chain.pendingIds.length }),
  gettransactioninfobyid({ chain, body, solid }) {
    const found = chain.find(String(body.value), { solid });
    return found ? writeInfo(found.block, found.included, body) : {};
  },
  gettransactioninfobyblocknum({ body, ...q }) {
    const block = blockAt(q, Number(body.num));
    return (block?.included ?? []).map((included) => writeInfo(block!, included, body));
  },
  getaccount({ chain, body, solid }) {
    const address = readAddress(body.address);
    const account = (solid ? chain.solid.state : chain.newestState).accounts.get(address);
    if (!account) return {};
    const { balanceSun, freeNetUsed } = account;
    const written = { ...numbered('balance', balanceSun), ...numbered('free_net_usage', freeNetUsed) };
    return { address: writeAddress(address, body), ...written, create_time: 1_700_000_000_000 };
  },
  getaccountresource({ chain, body }) {
    const account = chain.newestState.accounts.get(readAddress(body.address));
    if (!account) return {};
    return {
      ...numbered('freeNetUsed', account.freeNetUsed),
      ...numbered('freeNetLimit', chain.prices.freeNet),
      ...numbered('NetUsed', account.netUsed),
      ...numbered('NetLimit', account.netLimit),
      TotalNetLimit: 43_200_000_000,
      TotalNetWeight: 26_000_000_000,
      ...numbered('EnergyUsed', account.energyUsed),
      ...numbered('EnergyLimit', account.energyLimit),
      TotalEnergyLimit: 180_000_000_000,
      TotalEnergyWeight: 19_000_000_000,
    };
  },
  getchainparameters: ({ chain: { prices } }) => ({
    chainParameter: [
      { key: 'getMaintenanceTimeInterval', value: 21_600_000 },
      { key: 'getTransactionFee', value: Number(prices.sunPerByte) },
      { key: 'getCreateAccountFee', value: Number(prices.createAccountNetSun) },
      { key: 'getCreateNewAccountFeeInSystemContract', value: Number(prices.createAccountSun) },
      { key: 'getCreateNewAccountBandwidthRate', value: 1 },
      // A parameter that is zero has no value.
      { key: 'getAllowUpdateAccountName' },
      { key: 'getEnergyFee', value: Number(prices.sunPerEnergy) },
      { key: 'getMaxFeeLimit', value: Number(prices.maxFeeLimitSun) },
      { key: 'getFreeNetLimit', value: Number(prices.freeNet) },
      { key: 'getMemoFee', value: 1_000_000 },
    ],
  }),
  triggerconstantcontract: (question) => askToken(question),
  estimateenergy(question) {
    const { result, energy_used } = askToken(question) as { result: Json; energy_used?: number };
    return result.message ? { result } : { result, energy_required: energy_used };
  },
  getnodeinfo: ({ chain }) => ({
    block: `Num:${chain.head.number},ID:${chain.head.id}`,
    solidityBlock: `Num:${chain.solid.number},ID:${chain.solid.id}`,
  }),
};

const selectors: Readonly<Record<string, string>> = {
  'balanceOf(address)': '70a08231',
  'transfer(address,uint256)': 'a9059cbb',
};

function askToken({ chain, body, solid }: Question): Json {
  const contract = readAddress(body.contract_address);
  const token = chain.rules(contract);
  if (!token)
    return {
      result: {
        code: 'CONTRACT_VALIDATE_ERROR',
        message: hexText('Contract validate error : Smart contract is not exist.'),
      },
    };
  const selector = selectors[String(body.function_selector)] ?? '';
  const data = body.data === undefined ? selector + String(body.parameter ?? '') : String(body.data);
  const owner = readAddress(body.owner_address);
  const state = solid ? chain.solid.state : chain.newestState;
  const { result, energy, returned, log } = callToken(state, { owner, contract, data, token, asked: true });
  const isReverted = result === 'REVERT';
  return {
    result: { result: true, ...(isReverted && { message: hexText('REVERT opcode executed') }) },
    energy_used: Number(energy),
    constant_result: [returned],
    ...(log.length > 0 && { logs: log }),
    transaction: { ret: [isReverted ? { ret: 'FAILED' } : {}], visible: body.visible === true, txID: '', raw_data: {} },
  };
}

const newest = ({ chain, solid }: Omit<Question, 'body'>) => (solid ? chain.solid : chain.head);

function blockAt(q: Omit<Question, 'body'>, number: number): DoubleBlock | undefined {
  return number <= newest(q).number ? q.chain.block(number) : undefined;
}

function blockNamed(q: Omit<Question, 'body'>, name: string): DoubleBlock | undefined {
  const block = blockAt(q, name.length === 64 ? Number.parseInt(name.slice(0, 16), 16) : Number(name));
  return name.length === 64 && block?.id !== name ? undefined : block;
}

const writeIf = (block: DoubleBlock | undefined) => (block ? writeBlock(block) : {});

function headerOf({ number, id, parentId, timestampMs }: DoubleBlock) {
  const raw_data = {
    ...numbered('number', BigInt(number)),
    txTrieRoot: '0'.repeat(64),
    witness_address: '41928c9af0651632157ef27a2cf17ca72c575a4d21',
    parentHash: parentId,
    version: 31,
    ...numbered('timestamp', BigInt(timestampMs)),
  };
  return { blockID: id, block_header: { raw_data, witness_signature: '00'.repeat(65) } };
}

function writeBlock(block: DoubleBlock) {
  const transactions = block.included.map(writeTransaction);
  return { ...headerOf(block), ...(transactions.length > 0 && { transactions }) };
}

function writeTransaction({ transaction, receipt }: Included) {
  const { contract, feeLimitSun } = transaction;
  const value =
    contract.type === 'TransferContract'
      ? {
          amount: Number(contract.amountSun),
          owner_address: hexAddress(contract.owner),
          to_address: hexAddress(contract.to),
        }
      : {
          data: contract.data,
          owner_address: hexAddress(contract.owner),
          contract_address: hexAddress(contract.contract),
        };
  return {
    ret: [{ contractRet: receipt.result ?? 'SUCCESS' }],
    signature: transaction.signatures.map(hexOf),
    txID: transaction.id,
    raw_data: {
      contract: [
        { parameter: { value, type_url: `type.googleapis.com/protocol.${contract.type}` }, type: contract.type },
      ],
      ref_block_bytes: transaction.refBlockBytes,
      ref_block_hash: transaction.refBlockHash,
      expiration: Number(transaction.expirationMs),
      ...numbered('fee_limit', feeLimitSun),
      timestamp: Number(transaction.timestampMs),
    },
    raw_data_hex: hexOf(transaction.rawData),
  };
}

function writeInfo(block: DoubleBlock, { transaction, receipt }: Included, body: Json) {
  const { contract } = transaction;
  const isFailed = receipt.result !== undefined && receipt.result !== 'SUCCESS';
  return {
    id: transaction.id,
    ...numbered('fee', receipt.feeSun),
    blockNumber: block.number,
    blockTimeStamp: block.timestampMs,
    contractResult: [receipt.returned],
    ...(contract.type === 'TriggerSmartContract' && { contract_address: writeAddress(contract.contract, body) }),
    receipt: {
      ...numbered('energy_usage', receipt.energyUsage),
      ...numbered('energy_fee', receipt.energyFeeSun),
      ...numbered('energy_usage_total', receipt.energyTotal),
      ...numbered('net_usage', receipt.netUsage),
      ...numbered('net_fee', receipt.netFeeSun),
      ...(receipt.result && { result: receipt.result }),
    },
    ...(receipt.log.length > 0 && { log: receipt.log.map((event) => writeEvent(event, body)) }),
    ...(isFailed && { result: 'FAILED', resMessage: hexText(messages[receipt.result!]!) }),
  };
}

/** In hex without the prefix, or in base58 with it. Source: java-tron, `Util.convertLogAddressToTronAddress`. */
function writeEvent(event: Included['receipt']['log'][number], { visible }: Json) {
  return visible === true ? { ...event, address: addressOf(bytesOf(`41${event.address}`)) } : event;
}

const messages: Readonly<Record<string, string>> = {
  REVERT: 'REVERT opcode executed',
  OUT_OF_ENERGY: "Not enough energy for 'CALL' operation executing: curInvokeEnergyLimit[0]",
};

/** Fields that are zero are not written. */
const numbered = (name: string, value: bigint) => (value === 0n ? {} : { [name]: Number(value) });
const hexText = (text: string) => Buffer.from(text, 'utf8').toString('hex');
const hexAddress = (address: string) => hexOf(addressBytes(address));

function readAddress(given: unknown): string {
  const text = String(given);
  return /^41[0-9a-fA-F]{40}$/.test(text) ? addressOf(bytesOf(text)) : addressOf(addressBytes(text));
}

const writeAddress = (address: string, { visible }: Json) => (visible === true ? address : hexAddress(address));
