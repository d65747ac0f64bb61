import { choosePort, PortUnavailable, parsePort } from './ports.ts';

/** Where each part of a stack listens. */
export interface StackPorts {
  api: number;
  rpc: number;
  signers: [number, number, number];
  /** Of the mailbox: its pages, and where mail is sent to. */
  mail: number;
  smtp: number;
  /** Of the identity provider. */
  provider: number;
  /** Undefined when the server is somebody else's. */
  temporal: number | undefined;
  temporalUi: number | undefined;
  postgres: number | undefined;
  /** Of the local Bitcoin network's Esplora-style API; undefined where there is none. */
  bitcoin: number | undefined;
}

const SIGNER_PORTS = 'PURSER_SIGNER_PORTS';
const DEFAULT_SIGNER_PORTS = '7101,7102,7103';

/**
 * Decides on all ports before anything is started. Throws {@link PortUnavailable} for the first that cannot be used.
 * @param bitcoin whether there is to be a local Bitcoin network
 */
export async function stackPorts(
  env: NodeJS.ProcessEnv,
  { bitcoin = false }: { bitcoin?: boolean } = {},
): Promise<StackPorts> {
  const choose = (variable: string, purpose: string, fallback: number) =>
    choosePort(env, { variable, purpose, fallback });
  const ports: StackPorts = {
    api: await choose('PURSER_PORT', 'the API', 8080),
    rpc: await choose('PURSER_RPC_PORT', "the local chain's RPC", 8545),
    temporal: env.TEMPORAL_ADDRESS ? undefined : await choose('PURSER_TEMPORAL_PORT', 'Temporal', 7233),
    temporalUi: env.TEMPORAL_ADDRESS ? undefined : await choose('PURSER_TEMPORAL_UI_PORT', 'the Temporal UI', 8233),
    postgres: env.DATABASE_URL ? undefined : await choose('PURSER_POSTGRES_PORT', 'Postgres', 5433),
    signers: await signerPorts(env),
    mail: await choose('PURSER_MAIL_PORT', 'the inbox', 8025),
    smtp: await choose('PURSER_SMTP_PORT', 'mail by SMTP', 1025),
    provider: await choose('PURSER_PROVIDER_PORT', 'the identity provider', 9080),
    bitcoin: bitcoin ? await choose('PURSER_BITCOIN_PORT', "the local Bitcoin network's API", 3002) : undefined,
  };
  refuseRepeats(ports);
  return ports;
}

async function signerPorts(env: NodeJS.ProcessEnv): Promise<[number, number, number]> {
  const given = env[SIGNER_PORTS] ?? DEFAULT_SIGNER_PORTS;
  // One 0 is enough to say that all three may be anywhere.
  const parts = given === '0' ? ['0', '0', '0'] : given.split(',').map((part) => part.trim());
  if (parts.length !== 3) {
    throw new PortUnavailable(
      `${SIGNER_PORTS} is "${given}"; give three ports separated by commas, such as ${DEFAULT_SIGNER_PORTS}.`,
    );
  }
  const ports: number[] = [];
  for (const [index, value] of parts.entries()) {
    const fallback = parsePort({ value, variable: SIGNER_PORTS });
    const one = { [SIGNER_PORTS]: value };
    ports.push(await choosePort(one, { variable: SIGNER_PORTS, purpose: `signer ${index + 1}`, fallback }));
  }
  return ports as [number, number, number];
}

function refuseRepeats(ports: StackPorts): void {
  const all = Object.values(ports)
    .flat()
    .filter((port) => port !== undefined);
  const repeated = all.find((port, index) => all.indexOf(port) !== index);
  if (repeated !== undefined)
    throw new PortUnavailable(`Port ${repeated} is given to two parts; each needs a port of its own.`);
}
