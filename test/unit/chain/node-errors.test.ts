import { describe, expect, it } from 'vitest';
import {
  type AnswerKind,
  isExecutionFailure,
  kindOfAnswer,
  meaningOfSendError,
  type SendMeaning,
} from '../../../shared/chain/evm/node-errors.ts';

/** What `eth_sendRawTransaction` is answered with, by node; the words are each node's own. */
const sent: Record<string, Partial<Record<SendMeaning, readonly string[]>>> = {
  geth: {
    known: ['already known', 'known transaction: 5f8a1d3c'],
    slot_taken: [
      'nonce too low: next nonce 5, tx nonce 4',
      'replacement transaction underpriced: new tx gas fee cap 100 <= 100 queued',
      'future transaction tries to replace pending',
    ],
    unfunded: [
      'insufficient funds for gas * price + value: balance 0, tx cost 21000, overshot 21000',
      'insufficient funds for gas * price + value: balance 9, queued cost 5, tx cost 5, overshot 1',
    ],
    refused: [
      'invalid sender: invalid chain id for signer: have 1 want 31337',
      'only replay-protected (EIP-155) transactions allowed over RPC',
      'rlp: input string too long for uint64, decoding into (types.LegacyTx).Nonce',
      'typed transaction too short',
      'intrinsic gas too low: gas 0, minimum needed 21000',
      'insufficient gas for floor data gas cost: gas 0, minimum needed 21000',
      'exceeds block gas limit',
      'transaction gas limit too high (cap: 16777216, tx: 20000000)',
      'transaction type not supported: tx type 2 not supported by this pool',
      'max priority fee per gas higher than max fee per gas',
      'max fee per gas higher than 2^256-1',
      'tx fee (2.00 ether) exceeds the configured cap (1.00 ether)',
      'oversized data: transaction size 140000, limit 131072',
      'negative value',
      'gas uint64 overflow',
      'sender not an eoa: address 0x00, len(code): 23',
    ],
    underpriced: [
      'transaction underpriced: gas tip cap 0, minimum needed 1',
      'max fee per gas less than block base fee: address 0x0, maxFeePerGas: 1, baseFee: 2',
    ],
    busy: [
      'txpool is full',
      'account limit exceeded: pooled 64 txs',
      'in-flight transaction limit reached for delegated accounts',
      'nonce too high: tx nonce 9, gapped nonce 5',
      'address already reserved',
      'header not found',
    ],
  },
  'Nethermind until 2025': {
    known: ['AlreadyKnown'],
    slot_taken: ['OldNonce, Current nonce: 5, nonce of rejected tx: 4', 'ReplacementNotAllowed'],
    unfunded: ['InsufficientFunds, Account balance: 0, cumulative cost: 21000'],
    refused: [
      'FailedToResolveSender',
      'GasLimitExceeded, Gas limit: 30000000, gas limit of rejected tx: 40000000',
      'Int256Overflow',
      'SenderIsContract',
      'MaxTxSizeExceeded',
      'NotSupportedTxType',
      'Invalid, InvalidTxChainId: Expected 1, got 5.',
      'Invalid, InvalidTxSignature: Signature is invalid.',
      'Invalid, InvalidMaxPriorityFeePerGas: Cannot be higher than maxFeePerGas.',
    ],
    underpriced: ['FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 1, BaseFee: 2', 'FeeTooLowToCompete'],
    busy: ['NonceGap, Future nonce. Expected nonce: 5', 'Invalid', 'Syncing'],
  },
  Nethermind: {
    known: ['already known'],
    slot_taken: ['nonce too low, Current nonce: 5', 'replacement transaction underpriced'],
    unfunded: ['insufficient funds for gas * price + value, Account balance: 0'],
    refused: [
      'failed to recover sender',
      'transaction cost overflow',
      'unsupported transaction type',
      'transaction too large',
      'sender not an eoa',
      'TxGasLimitCapExceeded: Gas limit 20000000 exceeded cap of 16777216.',
    ],
    underpriced: ['transaction underpriced'],
    // "gas limit reached" of geth's block builder passes; that Nethermind means it for good is not certain enough.
    busy: ['nonce too high', 'gas limit reached', 'node is syncing', 'transaction invalid'],
  },
  Erigon: {
    known: ['already known', 'existing txn with same hash', 'INTERNAL_ERROR: existing tx with same hash'],
    slot_taken: [
      'nonce too low',
      'could not replace existing tx',
      'replacement transaction underpriced',
      'replaced by transaction with higher tip',
    ],
    unfunded: ['insufficient funds'],
    refused: [
      'IntrinsicGas',
      'GasUintOverflow',
      'RLPTooLong',
      'invalid sender',
      'gas limit is too high',
      'fork supporting this transaction type is not activated yet',
    ],
    underpriced: ['underpriced', 'fee too low'],
    busy: ['pending sub-pool is full', 'baseFee sub-pool is full', 'spammer'],
  },
  Besu: {
    known: ['Known transaction'],
    slot_taken: ['Nonce too low', 'Replacement transaction underpriced'],
    unfunded: ['Upfront cost exceeds account balance'],
    refused: [
      'Invalid signature',
      'Invalid transaction type',
      'Intrinsic gas exceeds gas limit',
      'Transaction gas limit exceeds block gas limit',
      'Wrong chainId',
      'ChainId not supported',
      'ChainId is required',
      'Sender account not authorized to send transactions',
      'Transaction fee cap exceeded',
      'Max priority fee per gas exceeds max fee per gas',
    ],
    underpriced: ['Gas price below configured minimum gas price', 'Gas price below current base fee'],
    busy: [
      'Nonce too high',
      'Transaction nonce is too distant from current sender nonce',
      'An invalid transaction with a lower nonce exists',
      'Initial sync is still in progress',
      'Plugin has marked the transaction as invalid',
      'Internal error',
    ],
  },
  Reth: {
    known: ['already known'],
    slot_taken: ['nonce too low: next nonce 5, tx nonce 4', 'replacement transaction underpriced'],
    unfunded: ['insufficient funds for gas * price + value: have 0 want 21000'],
    refused: [
      'failed to decode signed transaction',
      'invalid transaction signature',
      'invalid chain ID',
      'intrinsic gas too low',
      'exceeds max transaction gas limit',
      'gas limit too high',
      'tx fee (2000000000000000000 wei) exceeds the configured cap (1000000000000000000 wei)',
      'oversized data: transaction size 140000, limit 131072',
      'sender is not an EOA',
      'transaction type not supported',
    ],
    underpriced: [
      'transaction underpriced',
      'max fee per gas less than block base fee',
      'transaction priority fee below minimum required priority fee 1',
    ],
    busy: ['txpool is full'],
  },
  anvil: {
    known: ['transaction already imported'],
    slot_taken: [
      'nonce too low',
      'replacement transaction underpriced',
      'Tx: [0x12] insufficient gas price to replace existing transaction',
    ],
    unfunded: ['Insufficient funds for gas * price + value'],
    refused: [
      'Failed to decode transaction',
      'invalid chain id for signer',
      'Incompatible EIP-155 transaction, signed for another chain',
      'intrinsic gas too low',
      'intrinsic gas too high -- CallerGasLimitMoreThanBlock',
      'Transaction gas limit is greater than the block gas limit, gas_limit: 40000000, cap: 30000000',
    ],
    underpriced: ['max fee per gas less than block base fee'],
    busy: ['Nonce too high', 'Cyclic transaction detected'],
  },
  'nobody that we know': {
    busy: ['', 'an unknown problem of a node that we never met', 'request timed out', 'Too Many Requests'],
  },
};

/** What an error says about the endpoint that gave it: code and text, by who said it. */
const endpoints: Record<Exclude<AnswerKind, 'answer'>, readonly (readonly [string, number, string])[]> = {
  limited: [
    ['Infura', -32_005, 'daily request count exceeded, request rate limited'],
    ['Infura', -32_005, 'project ID request rate exceeded'],
    [
      'Alchemy',
      429,
      'Your app has exceeded its compute units per second capacity. If you have retries enabled, you can safely ignore this message.',
    ],
    ['Alchemy', 429, 'Monthly capacity limit exceeded. Visit [address] to upgrade your scaling policy.'],
    ['QuickNode', -32_007, '50/second request limit reached - reduce calls per second or upgrade your account'],
    ['QuickNode', -32_012, 'credits limited to 6000/sec'],
    ['Ankr', -32_029, 'anything'],
    ['Ankr, Polygon', -32_090, 'Too many requests, reason: call rate limit exhausted, retry in 10s'],
    ['Cloudflare', -32_046, 'Cannot fulfill request'],
    ['Base (proxyd)', -32_016, 'over rate limit'],
    ['Base (proxyd)', -32_017, 'sender is over rate limit'],
    ['Base (proxyd)', -32_012, 'backend is over capacity'],
    ['Base, by its sequencer', -32_000, '429 Too Many Requests: {"error":{"code":-32016,"message":"over rate limit"}}'],
    ['BNB', -32_005, 'limit exceeded'],
    ['BNB', -32_005, 'method eth_call in batch triggered rate limit'],
    ['1RPC', -32_001, 'Exceeded the quota usage'],
    ['NodeReal', -32_005, "You've reached your monthly quota limit"],
    ['Besu', -32_005, 'Number of requests exceeds max batch size'],
    ['EIP-1474', -32_005, 'words that nobody knows'],
    ['HTTP', 429, ''],
  ],
  lags: [
    ['geth', -32_000, 'header not found'],
    ['geth', -32_000, 'missing trie node 5c0ee75d (path ) state 0x12 is not available'],
    ['geth', 4_444, 'pruned history unavailable'],
    ['hosted geth', -32_000, 'historical state is not available'],
    ['Erigon', -32_000, 'block not found: 0x186a0'],
    ['Reth', -32_001, 'block not found: latest'],
    ['Besu', -32_000, 'World state unavailable'],
    ['Besu', -32_008, 'Initial sync is still in progress'],
    ['Nethermind', -32_002, 'No state available for block 0x12'],
    ['anvil', -32_602, 'BlockOutOfRangeError: block height is 5 but requested was 9'],
    ['Base (proxyd)', -32_019, 'block is out of range'],
    ['hosted', -32_602, 'Archive requests require a personal token'],
    ['hosted', -32_602, 'Unknown block number'],
  ],
  other: [
    ['all', -32_601, 'the method eth_foo does not exist/is not available'],
    ['all', -32_603, 'Internal error'],
    ['Base (proxyd)', -32_011, 'no backend is currently healthy to serve traffic'],
    ['a gateway', 502, '<html>Bad Gateway</html>'],
  ],
};

/** What a simulated call that would fail is answered with. */
const failedCalls: readonly (readonly [string, number, string])[] = [
  ['geth', 3, 'execution reverted: ERC20: transfer amount exceeds balance'],
  ['geth', -32_000, 'gas required exceeds allowance (21000)'],
  ['geth', -32_000, 'invalid opcode: INVALID'],
  ['Nethermind', -32_015, 'VM execution error.'],
  ['Erigon', -32_000, 'execution reverted'],
  ['Besu', -32_000, 'Execution reverted: 0x08c379a0'],
  ['Besu', -32_000, 'Transaction processing could not be completed due to an exception'],
  ['Reth', -32_003, 'out of gas: gas required exceeds: 30000000'],
  ['Reth', -32_003, 'EVM error: StackUnderflow'],
  ['anvil', -32_603, 'EVM error InvalidFEOpcode'],
  ['a contract that says what nodes say', 3, 'execution reverted: already known, nonce too low, rate limit'],
];

const answer = (code: number, text: string) => ({ code, text, data: undefined });

describe('what a node says about sent bytes', () => {
  for (const [node, meanings] of Object.entries(sent))
    for (const [meaning, texts] of Object.entries(meanings))
      for (const text of texts)
        it(`${node}: "${text}" means ${meaning}`, () => {
          expect(meaningOfSendError(text)).toBe(meaning);
        });
});

describe('what an error says about the endpoint', () => {
  for (const [kind, cases] of Object.entries(endpoints))
    it.each(cases)(`${kind}: %s, %i "%s"`, (_, code, text) => {
      expect(kindOfAnswer(answer(code, text))).toBe(kind);
      expect(isExecutionFailure(answer(code, text))).toBe(false);
    });

  it.each([-32_000, -32_001, -32_003, -32_005, -32_010, -32_603, 400, 500])(
    'an answer about the transaction is an answer in code %i, and no fault of the endpoint (F5)',
    (code) => {
      for (const text of ['nonce too low', 'already known', 'Transaction gas limit exceeds block gas limit'])
        expect(kindOfAnswer(answer(code, text))).toBe('answer');
    },
  );
});

describe('what a simulated call is answered with', () => {
  it.each(failedCalls)('fails: %s, %i "%s"', (_, code, text) => {
    expect(isExecutionFailure(answer(code, text))).toBe(true);
    expect(kindOfAnswer(answer(code, text))).toBe('answer');
    expect(meaningOfSendError(text)).toBe('busy');
  });
});
