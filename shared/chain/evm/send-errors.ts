/**
 * What a node's answer to `eth_sendRawTransaction` means.
 * - `known`: it has these very bytes.
 * - `slot_taken`: the nonce is used, or another transaction waits at it; the chain decides.
 * - `unfunded`: the sender cannot pay for it yet.
 * - `refused`: no repeat will help.
 * - `busy`: a repeat may help. What the table does not know is `busy` as well: only a certain refusal ends a payment.
 */
export type SendMeaning = 'known' | 'slot_taken' | 'unfunded' | 'refused' | 'busy';

/**
 * The texts, since codes differ by node and mean little (-32000 and -32603 are used for all of these). Sources:
 * go-ethereum core/error.go, core/txpool/errors.go, core/txpool/validation.go, internal/ethapi; Nethermind
 * TxPool/AcceptTxResult.cs; Erigon txnprovider/txpool/txpoolcfg; Besu RpcErrorType.java; Reth rpc-eth-types error.rs;
 * anvil eth/error.rs. Earlier rows win.
 */
const table: readonly { readonly meaning: SendMeaning; readonly texts: readonly RegExp[] }[] = [
  {
    meaning: 'known',
    texts: [
      /already known/i, // geth, Erigon, Reth
      /^alreadyknown/i, // Nethermind
      /\bknown transaction/i, // Besu, older geth
      /transaction already imported/i, // anvil, OpenEthereum
      /existing tx with same hash/i, // Erigon
      /already in (the )?(mem)?pool/i,
    ],
  },
  {
    meaning: 'slot_taken',
    texts: [
      /nonce (is )?too low/i, // geth, Erigon, Besu, Reth, anvil; OpenEthereum
      /oldnonce|nonceused/i, // Nethermind
      /nonce has already been used/i,
      /replacement transaction (is )?underpriced/i, // geth, Besu, Reth, anvil
      /replacementnotallowed/i, // Nethermind
      /could not replace existing tx/i, // Erigon
      /(transaction|replacement).*(gas price|fee).*too low.*replace/i,
      /future transaction tries to replace pending/i, // geth
    ],
  },
  {
    meaning: 'unfunded',
    texts: [
      /insufficient ?funds/i, // geth, Erigon, Reth, anvil; Nethermind: InsufficientFunds
      /upfront cost exceeds account balance/i, // Besu
      /doesn't have enough funds|not enough funds/i,
    ],
  },
  {
    meaning: 'refused',
    texts: [
      /invalid sender|invalid signature|failedtoresolvesender/i,
      /(invalid|wrong|incorrect) chain ?id/i,
      /only replay-protected/i,
      /rlp: |failed to decode|decode signed transaction|typed transaction too short|invalid rlp|unable to decode/i,
      /transaction type not supported|notsupportedtxtype|tx type .* not supported/i,
      /intrinsic gas (too low|exceeds gas limit)|insufficient gas for floor data|intrinsicgas/i,
      /exceeds block gas limit|gaslimitexceeded|gas limit exceeds block|exceeds (the )?maximum.*gas|gas limit too high/i,
      /exceeds the configured cap|transaction fee cap exceeded/i,
      /max ?priority ?fee per gas higher than max ?fee|tip (above|higher than) (the )?fee ?cap|priority fee is greater than max fee/i,
      /negative value|oversized data|maxtxsizeexceeded|int256overflow|uint64 overflow|(fee|tip|gas price).*(256|overflow)/i,
      /sender (is )?not an eoa|senderiscontract|sender is blocked|sender account not authorized/i,
    ],
  },
];

/** @param text the node's message, in whatever JSON-RPC code it came */
export function meaningOfSendError(text: string): SendMeaning {
  const trimmed = text.trim();
  return table.find((row) => row.texts.some((pattern) => pattern.test(trimmed)))?.meaning ?? 'busy';
}
