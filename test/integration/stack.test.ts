import pg from 'pg';
import { createPublicClient, getContract, http, parseAbi, parseEther } from 'viem';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestChain, type TestChain } from '../support/anvil.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { connectTestTemporal } from '../support/temporal.ts';

describe('a test database', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());

  const query = async (url: string, sql: string) => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
      return await client.query(sql);
    } finally {
      await client.end();
    }
  };

  it('is migrated, and the application may use its tables', async () => {
    await expect(query(database.url, 'select count(*) from accounts')).resolves.toMatchObject({ rowCount: 1 });
  });

  it('does not let the application change the schema', async () => {
    await expect(query(database.url, 'create table nonsense (id int)')).rejects.toThrow(/permission denied/);
    await expect(query(database.url, 'drop table accounts')).rejects.toThrow(/must be owner/);
  });

  it('is not shared with another one', async () => {
    const other = await createTestDatabase();
    await query(other.ownerUrl, 'create table only_here (id int)');
    await expect(query(database.ownerUrl, 'select * from only_here')).rejects.toThrow(/does not exist/);
    await other.drop();
  });
});

describe('the local chain', () => {
  let chain: TestChain;
  beforeAll(async () => {
    chain = await startTestChain();
  });
  afterAll(() => chain.stop());

  it('has a USDC whose EIP-712 domain is that of the real one', async () => {
    const client = createPublicClient({ transport: http(chain.rpcUrl) });
    const abi = parseAbi([
      'function name() view returns (string)',
      'function symbol() view returns (string)',
      'function version() view returns (string)',
      'function decimals() view returns (uint8)',
      'function TRANSFER_WITH_AUTHORIZATION_TYPEHASH() view returns (bytes32)',
      'function PERMIT_TYPEHASH() view returns (bytes32)',
    ]);
    const { read } = getContract({ address: chain.usdcAddress, abi, client });
    const facts = await Promise.all([read.name(), read.symbol(), read.version(), read.decimals()]);
    expect(facts).toEqual(['USD Coin', 'USDC', '2', 6]);
    await read.TRANSFER_WITH_AUTHORIZATION_TYPEHASH();
    await read.PERMIT_TYPEHASH();
  });

  it('has the token at the same address when it begins anew', async () => {
    const other = await startTestChain();
    expect(other.usdcAddress).toBe(chain.usdcAddress);
    await other.stop();
  });

  it('funds many addresses at once, each exactly once', async () => {
    const client = createPublicClient({ transport: http(chain.rpcUrl) });
    const addresses = Array.from({ length: 10 }, () => privateKeyToAccount(generatePrivateKey()).address);
    await Promise.all([...addresses, ...addresses].map((address) => chain.fund(address)));
    const abi = parseAbi(['function balanceOf(address) view returns (uint256)']);
    for (const address of addresses) {
      expect(await client.getBalance({ address })).toBe(parseEther('10'));
      const args = [address] as const;
      expect(await client.readContract({ address: chain.usdcAddress, abi, functionName: 'balanceOf', args })).toBe(
        10_000_000_000n,
      );
    }
  });
});

describe('the shared Temporal server', () => {
  it('knows the search attributes that the workflows set', async () => {
    const temporal = await connectTestTemporal();
    const { customAttributes } = await temporal.connection.operatorService.listSearchAttributes({
      namespace: 'default',
    });
    expect(Object.keys(customAttributes ?? {})).toEqual(
      expect.arrayContaining(['AccountId', 'AgentId', 'TxStatus', 'Chain', 'ApprovalDeadline']),
    );
    await temporal.close();
  });
});
