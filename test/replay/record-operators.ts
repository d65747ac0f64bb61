// `node test/replay/record-operators.ts`: as record.ts, for what operators begin and for the watch over coins for fees. It
// starts a stack of its own, for it loses what the database was told last, as a restore does.
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { LOCAL_CHAIN } from '../../dev/anvil.ts';
import { freezeAndNote } from '../../shared/change-freeze.ts';
import { byOperator } from '../../shared/db/audit.ts';
import { createPool, inTransaction } from '../../shared/db/pool.ts';
import { startFreeze } from '../../shared/freeze-start.ts';
import { workflowNames } from '../../shared/temporal.ts';
import { createTestClient, eventually } from '../support/client.ts';
import { startOwnStack } from '../support/own-stack.ts';
import { saveHistory } from './save-history.ts';

const stack = await startOwnStack();
const client = createTestClient(stack);
const pool = createPool({ url: stack.databaseUrl, max: 2, application: 'test' });
let connection = await Connection.connect({ address: stack.temporalAddress });
let temporal = new Client({ connection });

async function newAgent(name: string): Promise<string> {
  return (await client.post('/agents', { agent_name: name, chain: LOCAL_CHAIN })).body.id;
}
async function pay(agentId: string): Promise<void> {
  const { body } = await client.post('/transactions', {
    ...{ agent_id: agentId, direction: 'outbound', type: 'transfer', chain: LOCAL_CHAIN, token: 'USDC', amount: '1' },
    to_address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  });
  await eventually(
    () => client.get(`/transactions/${body.id}`),
    (answer) => answer.body.status === 'confirmed',
    { timeoutMs: 120_000 },
  );
}
/** One run to its end, whatever that is. */
async function run(name: string, workflowId: string, input: object): Promise<void> {
  await temporal.workflow
    .execute(name, { workflowId, taskQueue: 'wallet', args: [input] })
    .catch((error: unknown) => console.log(`${workflowId}: ${String(error)}`));
}
const save = (name: string, workflowId: string) => saveHistory(temporal, { name, workflowId });
const data = (name: string) => join(stack.home, name);
const copy = (from: string, to: string) => execFileSync('cp', ['-a', from, to]);

const agent = await newAgent('recorder');
await pay(agent);
await run(workflowNames.watchGas, 'recorded-gas', { chains: [LOCAL_CHAIN] });
await save('watch-gas', 'recorded-gas');
// One chain has a node that does not answer, or none at all: the others are read all the same.
await run(workflowNames.watchGas, 'recorded-gas-two', { chains: ['eip155:84532', LOCAL_CHAIN] });
await save('watch-gas-two-chains', 'recorded-gas-two');
await run(workflowNames.restore, 'recorded-not-frozen', { dryRun: false });
await save('restore-not-frozen', 'recorded-not-frozen');

await stack.halt('postgres');
copy(data('postgres/data'), data('backup'));
await stack.start('postgres');
await pay(agent);
await pay(await newAgent('lost'));
await stack.halt('api');
await stack.halt('worker');
await stack.halt('postgres');
rmSync(data('postgres/data'), { recursive: true });
copy(data('backup'), data('postgres/data'));
await stack.start('postgres');
await inTransaction(pool, (db) =>
  freezeAndNote(db, { scope: 'installation', reason: 'recorded', acting: byOperator('recorder') }),
);
await stack.start('worker');
connection = await Connection.connect({ address: stack.temporalAddress });
temporal = new Client({ connection });
await startFreeze(temporal);
await run(workflowNames.restore, 'recorded-dry-run', { dryRun: true });
await save('restore-dry-run', 'recorded-dry-run');
await run(workflowNames.restore, 'recorded-restore', { dryRun: false });
await save('restore', 'recorded-restore');
await run(workflowNames.restore, 'recorded-kept', { dryRun: false, isKept: true });
await save('restore-database-kept', 'recorded-kept');
await pool.end();
await connection.close();
await stack.stop();
process.exit(0);
