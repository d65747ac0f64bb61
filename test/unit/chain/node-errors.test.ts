import { describe, expect, it } from 'vitest';
import { meaningOfSendError, type SendMeaning } from '../../../shared/chain/evm/node-errors.ts';

const texts: Record<SendMeaning, string[]> = {
  known: [
    'already known', // geth, Reth
    'AlreadyKnown', // Nethermind
    'Known transaction', // Besu
    'known transaction: 5f8a1d3c', // older geth
    'transaction already imported', // anvil
    'INTERNAL_ERROR: existing tx with same hash', // Erigon
  ],
  slot_taken: [
    'nonce too low', // geth, anvil
    'nonce too low: next nonce 5, tx nonce 4', // geth, Reth
    'Nonce too low', // Besu
    'OldNonce, Current nonce: 5, nonce of rejected tx: 4', // Nethermind
    'Transaction nonce is too low. Try incrementing the nonce.', // OpenEthereum
    'replacement transaction underpriced', // geth
    'INTERNAL_ERROR: could not replace existing tx', // Erigon
    'ReplacementNotAllowed', // Nethermind
  ],
  unfunded: [
    'insufficient funds for gas * price + value: balance 0, tx cost 21000, overshot 21000', // geth
    'Insufficient funds for gas * price + value', // anvil
    'InsufficientFunds, Account balance: 0, cumulative cost: 21000', // Nethermind
    'Upfront cost exceeds account balance', // Besu
  ],
  refused: [
    'invalid sender',
    'invalid chain id for signer: have 1 want 31337',
    'rlp: input string too long for uint64',
    'Failed to decode transaction',
    'intrinsic gas too low: gas 0, minimum needed 21000',
    'exceeds block gas limit',
    'tx fee (2.00 ether) exceeds the configured cap (1.00 ether)',
    'transaction type not supported',
    'max priority fee per gas higher than max fee per gas',
    'FailedToResolveSender',
  ],
  busy: [
    'txpool is full',
    'transaction underpriced: gas tip cap 0, minimum needed 1',
    'FeeTooLow, MaxFeePerGas too low',
    'FeeTooLowToCompete',
    'max fee per gas less than block base fee: address 0x0, maxFeePerGas: 1, baseFee: 2',
    'Too Many Requests',
    'request timed out',
    'unknown transaction problem of a node that we never met',
    'header not found',
  ],
};

describe('what a node says about sent bytes', () => {
  for (const [meaning, all] of Object.entries(texts))
    for (const text of all)
      it(`"${text}" means ${meaning}`, () => {
        expect(meaningOfSendError(text)).toBe(meaning);
      });
});
