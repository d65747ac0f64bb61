import type { NodeAnswer } from '../errors.ts';

/**
 * What a node's answer to `eth_sendRawTransaction` means.
 * - `known`: it has these very bytes.
 * - `slot_taken`: the nonce is used, or another transaction waits at it; the chain decides.
 * - `unfunded`: the sender cannot pay for it yet.
 * - `underpriced`: it asks for higher fees just now.
 * - `refused`: no repeat will help.
 * - `busy`: a repeat may help. What the table does not know is `busy` as well: only a certain refusal ends a payment.
 */
export type SendMeaning = 'known' | 'slot_taken' | 'unfunded' | 'underpriced' | 'refused' | 'busy';

/**
 * What an error says about the endpoint that gave it.
 * - `answer`: it did its work; another one would say the same.
 * - `limited`: it takes no more requests for a while.
 * - `lags`: it does not have the block, or the state of it, that was asked about.
 * - `other`: nothing that is known; another endpoint may do better.
 */
export type AnswerKind = 'answer' | 'limited' | 'lags' | 'other';

type Meaning = Exclude<SendMeaning, 'busy'> | 'pool' | 'execution' | 'limited' | 'lags';

/**
 * All texts of nodes that decide anything, since codes differ by node and mean little: -32000 and -32603 are used for
 * all of these, -32005 for a rate limit (EIP-1474) as well as for too much gas (Besu). Earlier rows win.
 *
 * Sources: go-ethereum core/error.go, core/txpool/{errors,validation}.go, internal/ethapi, trie/errors.go; Nethermind
 * AcceptTxResult.cs, TxPoolErrorMessages.cs, TxErrorMessages.cs; Erigon txpoolcfg.go; Besu RpcErrorType.java; Reth
 * rpc-eth-types error/mod.rs; anvil eth/error.rs; OP Stack proxyd backend.go (Base and others stand behind it). The
 * hosted endpoints' limits: their documentation and issues, each named at its text.
 */
const table: readonly { readonly meaning: Meaning; readonly texts: readonly RegExp[] }[] = [
  {
    meaning: 'execution', // First: a contract may give any of the texts below as its reason.
    texts: [
      /revert/i, // geth, Erigon, Reth, Besu, anvil: "execution reverted"; Nethermind: "VM execution error: revert"
      /vm execution error/i, // Nethermind
      /evm error/i, // Reth, anvil
      /invalid opcode|invalidfeopcode|bad instruction|invalid jump|stack (under|over)flow/i,
      /out of ?gas|gas required exceeds/i, // geth, Erigon, Reth; anvil
      /transaction processing could not be completed/i, // Besu
    ],
  },
  {
    meaning: 'known',
    texts: [
      /already known/i, // geth, Erigon, Reth, Nethermind
      /^alreadyknown/i, // Nethermind until 2025
      /\bknown transaction/i, // Besu, older geth
      /transaction already imported/i, // anvil, OpenEthereum
      /existing txn? with same hash/i, // Erigon
      /already in (the )?(mem)?pool/i,
    ],
  },
  {
    meaning: 'slot_taken',
    texts: [
      /nonce (is )?too low/i, // all; OpenEthereum: "nonce is too low"
      /^(oldnonce|nonceused)/i, // Nethermind until 2025
      /nonce has already been used/i,
      /replacement transaction (is )?underpriced/i, // geth, Erigon, Besu, Reth, anvil, Nethermind
      /^replacementnotallowed/i, // Nethermind until 2025
      /could not replace existing tx/i, // Erigon
      /replaced by transaction with higher tip/i, // Erigon
      /insufficient gas price to replace/i, // anvil
      /(transaction|replacement).*(gas price|fee).*too low.*replace/i,
      /future transaction tries to replace pending/i, // geth
    ],
  },
  {
    meaning: 'unfunded',
    texts: [
      /insufficient ?funds/i, // geth, Erigon, Reth, anvil, Nethermind
      /upfront cost exceeds account balance|up-front cost \S+ exceeds/i, // Besu
      /doesn't have enough funds|not enough funds/i,
    ],
  },
  {
    meaning: 'refused',
    texts: [
      /invalid (transaction )?sender|invalid (transaction )?signature|failedtoresolvesender|failed to recover sender/i,
      /invalidtxsignature|invalidtxchainid/i, // Nethermind
      /(invalid|wrong|incorrect) chain ?id|chainid (not supported|is required)|signed for another chain/i,
      /only replay-protected/i, // geth
      /rlp: |rlptoolong|failed to decode|decode signed transaction|typed transaction too short|invalid rlp|unable to decode/i,
      /transaction type not supported|unsupported transaction type|invalid transaction type|tx type .* not supported/i,
      /^notsupportedtxtype|fork supporting this transaction type/i, // Nethermind, Erigon
      /intrinsic ?gas|insufficient gas for floor data/i, // all
      /exceeds block gas limit|^gaslimitexceeded|gas limit exceeds block|gas limit (is )?too high|greater than the block gas limit/i,
      /exceeds (the )?max(imum)? .*gas limit|txgaslimitcapexceeded/i, // geth, Reth, Nethermind
      /exceeds the configured cap|transaction fee cap exceeded/i, // geth, Reth; Besu
      /max ?priority ?fee ?per ?gas.*(higher than|exceeds|cannot be higher).*max ?fee/i, // geth, Reth, anvil; Besu; Nethermind
      /tip (above|higher than) (the )?fee ?cap|priority fee is greater than max fee/i,
      /negative value|oversized data|transaction too large|maxtxsizeexceeded/i,
      /int256overflow|uint64 overflow|gasuintoverflow|transaction cost overflow|higher than 2\^256/i,
      /sender (is )?not an eoa|senderiscontract|sender is blocked|sender account not authorized/i,
    ],
  },
  {
    meaning: 'underpriced',
    texts: [
      /underpriced|fee ?too ?low|fee below minimum|gas price below/i,
      /max fee per gas less than block base fee|less than (the )?(current |block )?base ?fee/i,
    ],
  },
  {
    meaning: 'pool', // An answer about these bytes and this moment; a repeat may help.
    texts: [
      /(tx|transaction) ?pool is full|sub-pool is full|spammer/i, // geth, Reth; Erigon
      /account limit exceeded|in-flight transaction limit|address already reserved|pending transaction type conflict/i,
      /nonce ?too ?high|nonce too far in future|nonce is too distant|gapped-nonce|noncegap|delegation nonce gap/i,
      /lower nonce exists/i, // Besu
    ],
  },
  {
    meaning: 'limited',
    texts: [
      /rate[- ]?limit|ratelimit|rate exceeded/i, // Infura, proxyd ("over rate limit"), Ankr, BNB ("triggered rate limit")
      /too many requests|too many connections/i, // Ankr, Polygon, QuickNode, proxyd
      /compute units|capacity limit|exceeded its .*capacity/i, // Alchemy
      /(request|daily|project).*(count|rate) exceeded|exceeded request limit/i, // Infura
      /(second|minute|day|daily|monthly) (request )?(limit|quota)|request limit reached|limited to \d+\/sec/i, // QuickNode
      /\bquota\b|usage limit/i, // 1RPC, NodeReal
      /^limit exceeded|limit exceeded$/i, // BNB, EIP-1474
      /over capacity|maximum number of concurrent requests|exceeds max batch size|too many rpc calls/i, // proxyd; Besu
      /cannot fulfill request/i, // Cloudflare
      /slow down|back ?off|throttl/i,
    ],
  },
  {
    meaning: 'lags',
    texts: [
      /(header|block|blocks) not found/i, // geth, Erigon, Besu, Reth
      /header for hash not found|unknown block|block .*(is|are) not available|block is out of range/i, // geth; proxyd
      /missing trie node|state .*not available|state is pruned|pruned history/i, // geth; Reth
      /world ?state (is )?(unavailable|not available)|no state available|missingtrienode/i, // Besu; Nethermind
      /blockoutofrange|required data unavailable|resource not found/i, // anvil
      /not yet available|is still in progress|node is syncing|currently syncing|node is behind/i, // Besu; Nethermind
      /extends beyond (current )?head|greater than (the )?latest|archive/i,
    ],
  },
];

function meaningOf(text: string): Meaning | undefined {
  const trimmed = text.trim();
  return table.find((row) => row.texts.some((pattern) => pattern.test(trimmed)))?.meaning;
}

/** @param text the node's message, in whatever JSON-RPC code it came */
export function meaningOfSendError(text: string): SendMeaning {
  const meaning = meaningOf(text);
  switch (meaning) {
    case 'known':
    case 'slot_taken':
    case 'unfunded':
    case 'underpriced':
    case 'refused':
      return meaning;
    default:
      return 'busy';
  }
}

/** Geth's code of a call that reverted, kept by most. Source: go-ethereum internal/ethapi. */
const revertedCode = 3;

/** Whether a node's answer says that the simulated transaction would fail on the chain. */
export function isExecutionFailure(answer: NodeAnswer): boolean {
  return answer.code === revertedCode || meaningOf(answer.text) === 'execution';
}

/** HTTP 429, which Alchemy also gives as JSON-RPC code; Ankr's own. */
const limitedCodes: readonly number[] = [429, -32_029];
/** "Limit exceeded" of EIP-1474, where no text says otherwise. */
const limitExceededCode = -32_005;

/** What an error says about the endpoint that gave it, not about what was asked. */
export function kindOfAnswer(answer: NodeAnswer): AnswerKind {
  if (limitedCodes.includes(answer.code)) return 'limited';
  if (answer.code === revertedCode) return 'answer';
  const meaning = meaningOf(answer.text);
  if (meaning === 'limited' || meaning === 'lags') return meaning;
  if (meaning !== undefined) return 'answer';
  return answer.code === limitExceededCode ? 'limited' : 'other';
}
