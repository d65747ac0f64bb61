import { relative } from 'node:path';
import { OWNER_EMAIL } from './account.ts';
import type { DevFacts } from './home.ts';

/** Where everything is, and two lines to paste. */
export function screen(o: { facts: DevFacts; homePath: string; seconds: number }): string {
  const { facts } = o;
  const inside = relative(process.cwd(), o.homePath);
  const home = inside === '' || inside.startsWith('..') ? o.homePath : inside;
  const rows: [string, string][] = [
    ['API', `${facts.base_url}/api/v1`],
    ['API reference', `${facts.base_url}/docs`],
    ['Temporal UI', facts.temporal_ui || `(server at ${facts.temporal_address})`],
    ['Chain RPC', `${facts.rpc_url}  (${facts.chain}, USDC ${facts.usdc_address})`],
    ...(facts.bitcoin_url === undefined
      ? []
      : [
          ['Bitcoin', `${facts.bitcoin_url}  (${facts.bitcoin_chain}; Esplora-style API, regtest)`] as [string, string],
        ]),
    ['Mail', `${facts.mail_url}  (what people who approve payments are sent)`],
    ['API key', facts.api_key],
    ['Sign in', `${facts.base_url}/auth/oidc/redirect  (in a browser; choose who you are)`],
    ['Data and logs', `${home}  (facts for programs: ${home}/dev.json)`],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  return [
    '',
    `Purser is running (${o.seconds.toFixed(1)} s).`,
    '',
    ...rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`),
    '',
    'Make an agent; its wallet gets 10 ETH and 10,000 USDC on the local chain:',
    '',
    `  ${exampleCommand(facts)}`,
    '',
    ...(facts.bitcoin_chain === undefined
      ? []
      : [`With ${facts.bitcoin_chain} in place of ${facts.chain} its wallet is one of Bitcoin, and gets 1 BTC.`, '']),
    'Sign in as its owner, from the command line; prints tokens as JSON:',
    '',
    `  npm run --silent sign-in -- ${OWNER_EMAIL} --json`,
    '',
    'Ctrl-C stops everything.',
    '',
  ].join('\n');
}

/** Works when pasted again: names are unique, so the time is part of it. */
function exampleCommand(facts: DevFacts): string {
  const body = `{\\"agent_name\\": \\"agent $(date +%s)\\", \\"chain\\": \\"${facts.chain}\\"}`;
  return `curl -s ${facts.base_url}/api/v1/agents -H 'X-API-Key: ${facts.api_key}' -H 'Content-Type: application/json' -d "${body}"`;
}
