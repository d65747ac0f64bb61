/** What is known of one variable of the environment. */
export interface Variable {
  /** Processes and commands that read it, in words. */
  readonly usedBy: string;
  /** Of its value; absent for text. */
  readonly unit?: string;
  /** What holds where it is not set: the value, `required`, or what happens then. */
  readonly byDefault: string;
  readonly meaning: string;
}

/** Ends the names of variables that are there once for each chain: `PURSER_RPC_<CHAIN>`. */
export const chainSuffix = '<CHAIN>';

/**
 * Every variable of the environment that a process or command of ours reads. Their shapes are in shared/config.ts,
 * signer/config.ts and beside the commands; a test holds names and defaults of both together, and the table in README.md
 * to this one.
 */
export const variables = {
  PURSER_ENV: {
    usedBy: 'api, worker',
    byDefault: 'required',
    meaning:
      '`sandbox` or `production`. Sandbox serves testnets and local chains with keys `purser_test_…`; production serves mainnets with keys `purser_live_…`',
  },
  DATABASE_URL: {
    usedBy: 'api, worker but `wallet-signing`',
    byDefault: 'required',
    meaning: 'Postgres, as a role that may not change the schema',
  },
  DATABASE_OWNER_URL: {
    usedBy: '`shared/db/migrate.ts`',
    byDefault: 'required',
    meaning: 'Postgres, as the role that owns the schema',
  },
  PURSER_DATABASE_POOL: {
    usedBy: 'api, worker',
    unit: 'connections',
    byDefault: '10',
    meaning: 'connections at most',
  },
  TEMPORAL_ADDRESS: {
    usedBy: 'api, worker',
    byDefault: 'required',
    meaning: '`host:port`',
  },
  TEMPORAL_NAMESPACE: {
    usedBy: 'api, worker',
    byDefault: 'default',
    meaning: 'namespace of the installation at Temporal',
  },
  TEMPORAL_API_KEY: {
    usedBy: 'api, worker',
    byDefault: 'none',
    meaning: 'for Temporal Cloud; a key turns TLS on',
  },
  TEMPORAL_TLS: {
    usedBy: 'api, worker',
    byDefault: 'none',
    meaning: 'for Temporal Cloud; a key turns TLS on',
  },
  PURSER_CHAINS: {
    usedBy: 'api, worker',
    byDefault: 'required',
    meaning: 'CAIP-2 ids, separated by commas; see Chains',
  },
  PURSER_EXTRA_TOKENS: {
    usedBy: 'api, worker',
    byDefault: 'none',
    meaning:
      'such as `eip155:31337/erc20:0x…=USDC/6` or `tron:0xcd8690dc/trc20:T…=USDT/6` (symbol / decimals), separated by commas',
  },
  'PURSER_CONFIRMATIONS_<CHAIN>': {
    usedBy: 'api, worker',
    unit: 'blocks',
    byDefault: 'Ethereum 12, Base 10, BNB 15, Polygon 64, Tron 20, Bitcoin 3, local 1',
    meaning: 'blocks until a payment is final; `<CHAIN>` like `EIP155_8453`',
  },
  PURSER_HOST: {
    usedBy: 'api',
    byDefault: '127.0.0.1',
    meaning: 'where it listens',
  },
  PURSER_PORT: {
    usedBy: 'api',
    unit: 'port',
    byDefault: '8080',
    meaning: 'where it listens',
  },
  PURSER_DECISION_WAIT_MS: {
    usedBy: 'api',
    unit: 'milliseconds',
    byDefault: '2000',
    meaning: 'how long a POST waits for the policies',
  },
  PURSER_FAUCET_URL: {
    usedBy: 'api, sandbox only',
    byDefault: 'none',
    meaning: 'funds new wallets on local chains',
  },
  PURSER_TOKEN_KEYS_FILE: {
    usedBy: 'api',
    byDefault: 'none: nobody signs in',
    meaning: 'private keys (JWKS) of access tokens, made by `api/init-token-keys.ts`',
  },
  PURSER_OIDC_ISSUER: {
    usedBy: 'api',
    byDefault: 'none: nobody signs in',
    meaning: 'the identity provider, and how it knows Purser',
  },
  PURSER_OIDC_CLIENT_ID: {
    usedBy: 'api',
    byDefault: 'none: nobody signs in',
    meaning: 'the identity provider, and how it knows Purser',
  },
  PURSER_OIDC_CLIENT_SECRET: {
    usedBy: 'api',
    byDefault: 'none: a public client',
    meaning: 'the secret that goes with it',
  },
  PURSER_OIDC_SCOPES: {
    usedBy: 'api',
    byDefault: 'openid email profile',
    meaning: 'what is asked of the provider',
  },
  PURSER_OIDC_EMAIL_VERIFIED: {
    usedBy: 'api',
    byDefault: 'claim',
    meaning:
      '`always` takes each address as verified; only for a provider that knows all of its people and says nothing of it',
  },
  PURSER_SIGN_UP: {
    usedBy: 'api',
    byDefault: 'first',
    meaning: 'whose first sign-in opens an account: `first`, `invited` or `anyone`',
  },
  PURSER_CONSOLE_URL: {
    usedBy: 'api',
    byDefault: 'none: a page of ours',
    meaning: 'where a sign-in ends in the browser',
  },
  PURSER_CORS_ORIGINS: {
    usedBy: 'api',
    byDefault: 'none',
    meaning: 'origins, separated by commas, whose pages may read answers',
  },
  PURSER_TRUSTED_PROXIES: {
    usedBy: 'api',
    byDefault: 'none',
    meaning: "addresses and networks of the proxies whose word for the client's address is taken",
  },
  PURSER_FAILED_AUTH_PER_MINUTE: {
    usedBy: 'api',
    unit: 'refusals a minute',
    byDefault: '10',
    meaning: 'refused credentials of one address before it is told to wait',
  },
  PURSER_X402_FEE_TIERS: {
    usedBy: 'api',
    unit: 'percent',
    byDefault: '0=0',
    meaning: 'fees of x402 payments: `0=1,100=0.5` takes 1 percent, and half of one from an amount of 100 on',
  },
  PURSER_LOOPBACK_TARGETS: {
    usedBy: 'api, worker (`wallet-webhooks`), sandbox only',
    byDefault: 'off',
    meaning: '`on` lets x402 targets and webhooks be on this machine, with http too',
  },
  PURSER_TARGET_CA_FILE: {
    usedBy: 'api, worker (`wallet-webhooks`), sandbox only',
    byDefault: 'none',
    meaning: 'certificates (PEM) to trust at x402 targets and webhooks besides the usual ones',
  },
  PURSER_OPERATOR_APPROVALS: {
    usedBy: '`npm run admin`',
    byDefault: 'on in sandbox, off in production',
    meaning: 'whether operators may decide for approvers',
  },
  PURSER_QUEUES: {
    usedBy: 'worker',
    byDefault: 'all',
    meaning: 'of `wallet`, `wallet-signing`, `wallet-chain`, `wallet-webhooks`, separated by commas',
  },
  'PURSER_RPC_<CHAIN>': {
    usedBy: 'worker (`wallet-chain`)',
    byDefault: 'required for each chain',
    meaning:
      'URLs of nodes, separated by commas; one, or three and more of different operators. JSON-RPC for EVM, Esplora for Bitcoin, full node API for Tron',
  },
  'PURSER_MAX_FEE_GWEI_<CHAIN>': {
    usedBy: 'worker (`wallet-chain`)',
    unit: 'gwei',
    byDefault: 'Ethereum 200, Base 20, Base Sepolia 50, BNB 20, Polygon 2000, local 500',
    meaning: 'the most that a unit of gas may cost; above it payments wait',
  },
  'PURSER_MAX_FEE_SAT_PER_VB_<CHAIN>': {
    usedBy: 'worker (`wallet-chain`)',
    unit: 'satoshis a virtual byte',
    byDefault: 'Bitcoin 500',
    meaning: 'the same for a virtual byte on Bitcoin, in satoshis',
  },
  'PURSER_MAX_FEE_TRX_<CHAIN>': {
    usedBy: 'worker (`wallet-chain`)',
    unit: 'TRX',
    byDefault: 'Tron 100, Nile 500',
    meaning: 'the most that a payment on Tron may burn; above it payments wait',
  },
  PURSER_MAX_IN_FLIGHT: {
    usedBy: 'worker (`wallet`)',
    unit: 'payments',
    byDefault: '16',
    meaning: 'payments in flight at a time, for each wallet and chain; the others wait',
  },
  'PURSER_SPEED_UP_AFTER_BLOCKS_<CHAIN>': {
    usedBy: 'worker (`wallet-chain`)',
    unit: 'blocks',
    byDefault: 'Ethereum 10, Base 30, BNB 60, Polygon 30, Bitcoin 6, local 20; none on Tron',
    meaning: 'blocks after which a payment that none has taken offers more',
  },
  PURSER_FUNDING_WAIT_SECONDS: {
    usedBy: 'worker (`wallet`, `wallet-chain`)',
    unit: 'seconds',
    byDefault: '3600',
    meaning: 'how long a payment waits for coins to pay its fee with',
  },
  PURSER_GIVE_UP_SECONDS: {
    usedBy: 'worker (`wallet-chain`)',
    unit: 'seconds',
    byDefault: '86400',
    meaning: 'how long a payment is tried without any step forward before its place is used up',
  },
  PURSER_POLICY_KEY_FILE: {
    usedBy: 'worker (`wallet`)',
    byDefault: 'required',
    meaning: 'private key that signs policy receipts',
  },
  PURSER_SPARE_KEYS: {
    usedBy: 'worker (`wallet`)',
    unit: 'keys',
    byDefault: '1',
    meaning: 'account keys made in advance',
  },
  PURSER_WORKFLOW_BUNDLE: {
    usedBy: 'worker (`wallet`)',
    byDefault: 'made at start',
    meaning: 'file made by `worker/bundle.ts`',
  },
  PURSER_SMTP_URL: {
    usedBy: 'worker (`wallet-webhooks`)',
    byDefault: 'required',
    meaning:
      'such as `smtps://user:password@mail.example.com:465`; `smtp:` uses STARTTLS, and must in production unless the server is on the same machine',
  },
  PURSER_MAIL_FROM: {
    usedBy: 'worker (`wallet-webhooks`)',
    byDefault: 'required',
    meaning: 'such as `Purser <purser@example.com>`',
  },
  PURSER_PUBLIC_URL: {
    usedBy: 'api, worker (`wallet-webhooks`)',
    byDefault: 'required with token keys; for mail',
    meaning:
      'where people and the identity provider reach the api: in links, redirects and as issuer of access tokens; `https:` in production',
  },
  PURSER_WEBHOOK_KEYS_FILE: {
    usedBy: 'worker (`wallet-webhooks`)',
    byDefault: 'required',
    meaning: 'private keys (JWKS) that open secrets of webhooks; the first is the current one',
  },
  PURSER_WEBHOOK_PUBLIC_KEY_FILE: {
    usedBy: 'api',
    byDefault: 'required',
    meaning: 'public half (JWK) of the current one, to which it seals',
  },
  PURSER_EVENT_MONTHS: {
    usedBy: 'worker (`wallet`)',
    unit: 'months',
    byDefault: '13',
    meaning: 'whole months that events and deliveries are kept besides the current one',
  },
  PURSER_AUDIT_MONTHS: {
    usedBy: 'worker (`wallet`)',
    unit: 'months',
    byDefault: '25',
    meaning: 'the same for the audit log; 12 at least',
  },
  PURSER_SIGNERS: {
    usedBy: 'worker (`wallet-signing`)',
    byDefault: 'required',
    meaning: 'JSON array of `{party, url, publicKey}`',
  },
  PURSER_COORDINATOR_KEY_FILE: {
    usedBy: 'worker (`wallet-signing`)',
    byDefault: 'required',
    meaning: 'identity towards the signers',
  },
  PURSER_SIGNER_PARTY: {
    usedBy: 'signer',
    byDefault: 'required',
    meaning: '1, 2 or 3',
  },
  PURSER_SIGNER_HOST: {
    usedBy: 'signer',
    byDefault: '127.0.0.1',
    meaning: 'a private address',
  },
  PURSER_SIGNER_PORT: {
    usedBy: 'signer',
    unit: 'port',
    byDefault: 'required',
    meaning: 'a private address',
  },
  PURSER_SIGNER_DATA_DIR: {
    usedBy: 'signer',
    byDefault: 'required',
    meaning: 'its store: sealed shares, signing log',
  },
  PURSER_SIGNER_KEK_FILE: {
    usedBy: 'signer',
    byDefault: 'required',
    meaning: 'key-encryption keys, 32 bytes in base64, one a line, the newest first',
  },
  PURSER_SIGNER_KEK: {
    usedBy: 'signer',
    byDefault: 'required',
    meaning: 'key-encryption keys, 32 bytes in base64, one a line, the newest first',
  },
  PURSER_SIGNER_IDENTITY_FILE: {
    usedBy: 'signer',
    byDefault: 'required',
    meaning: 'made by `signer/init.ts --kind signer`',
  },
  PURSER_SIGNER_PEERS: {
    usedBy: 'signer',
    byDefault: 'required',
    meaning: 'JSON object: party → public identity',
  },
  PURSER_SIGNER_KEK_PREVIOUS: {
    usedBy: 'signer',
    byDefault: 'none',
    meaning: 'with `PURSER_SIGNER_KEK`: earlier ones, separated by commas',
  },
  PURSER_SIGNER_BACKUP_DIR: {
    usedBy: 'signer',
    byDefault: 'no backup',
    meaning: 'directory, and public keys (`age1…`) of whoever may open it',
  },
  PURSER_SIGNER_BACKUP_RECIPIENT: {
    usedBy: 'signer',
    byDefault: 'no backup',
    meaning: 'directory, and public keys (`age1…`) of whoever may open it',
  },
  PURSER_OPERATOR_PUBLIC_KEY: {
    usedBy: 'signer',
    byDefault: 'none',
    meaning: 'who may repair, unban, name owners; without it nobody',
  },
  PURSER_OPERATOR_KEY_FILE: {
    usedBy: '`npm run signers`',
    byDefault: 'none',
    meaning: 'private half of it, beside `PURSER_SIGNERS`',
  },
  PURSER_KEY_REFRESH_DAYS: {
    usedBy: 'worker',
    unit: 'days',
    byDefault: '30',
    meaning: 'age in days at which shares are made anew; 0: only by hand',
  },
  PURSER_ALERT_TO: {
    usedBy: 'worker',
    byDefault: 'none',
    meaning: 'mail addresses, separated by commas, that are told what is wrong with the signers',
  },
  PURSER_COORDINATOR_PUBLIC_KEY: {
    usedBy: 'signer',
    byDefault: 'required',
    meaning: 'whose requests and receipts count',
  },
  PURSER_POLICY_PUBLIC_KEY: {
    usedBy: 'signer',
    byDefault: 'required',
    meaning: 'whose requests and receipts count',
  },
  PURSER_ENGINE: {
    usedBy: 'signer',
    byDefault: 'auto',
    meaning: '`wasm`, `native`, or native where it was built',
  },
  PURSER_LOG_LEVEL: {
    usedBy: 'all',
    byDefault: 'info',
    meaning: 'of fatal, error, warn, info, debug, trace, silent: what is less is not logged',
  },
  PURSER_METRICS_PORT: {
    usedBy: 'api, worker, signer',
    unit: 'port',
    byDefault: 'none: no metrics',
    meaning: 'where /metrics is served, apart from everything else; 0 takes a free one',
  },
  PURSER_METRICS_HOST: {
    usedBy: 'api, worker, signer',
    byDefault: '127.0.0.1',
    meaning: 'address on which metrics are served',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    usedBy: 'api, worker',
    byDefault: 'none: no traces',
    meaning:
      'base URL of a collector that takes traces by OTLP over HTTP; what signers do is sent by the worker, for they connect to nobody',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    usedBy: 'api, worker',
    byDefault: 'none',
    meaning: 'headers for the collector, as OpenTelemetry writes them: `name=value,name=value`',
  },
  PURSER_TRACE_RATIO: {
    usedBy: 'api, worker',
    unit: 'ratio',
    byDefault: '1',
    meaning: 'share of payments and requests that is traced, 0 to 1',
  },
  PURSER_GAS_CHECK_MINUTES: {
    usedBy: 'worker (`wallet`)',
    unit: 'minutes',
    byDefault: '5',
    meaning: 'how often balances for fees are looked at',
  },
  PURSER_LOW_GAS_TRANSFERS: {
    usedBy: 'worker (`wallet-chain`)',
    unit: 'transfers',
    byDefault: '5',
    meaning: 'a balance is low when it does not pay for so many usual token transfers at the fees of the day',
  },
  PURSER_HOME: {
    usedBy: '`npm start`, `npm run demo`, `sign-in`, `signers`',
    byDefault: '.purser',
    meaning: 'folder of all data of the local installation',
  },
  PURSER_CACHE_DIR: {
    usedBy: '`npm start`',
    byDefault: '.cache',
    meaning: 'folder of programs that are installed once',
  },
  PURSER_TEMPORAL_PORT: {
    usedBy: '`npm start`',
    unit: 'port',
    byDefault: '7233',
    meaning: 'of Temporal; 0 takes a free one',
  },
  PURSER_TEMPORAL_UI_PORT: {
    usedBy: '`npm start`',
    unit: 'port',
    byDefault: '8233',
    meaning: 'of the Temporal UI; 0 takes a free one',
  },
  PURSER_POSTGRES_PORT: {
    usedBy: '`npm start`',
    unit: 'port',
    byDefault: '5433',
    meaning: 'of Postgres; 0 takes a free one',
  },
  PURSER_RPC_PORT: {
    usedBy: '`npm start`',
    unit: 'port',
    byDefault: '8545',
    meaning: 'of the local chain; 0 takes a free one',
  },
  PURSER_SIGNER_PORTS: {
    usedBy: '`npm start`',
    unit: 'port',
    byDefault: '7101,7102,7103',
    meaning: 'of the three signers, separated by commas; 0 takes a free one',
  },
  PURSER_MAIL_PORT: {
    usedBy: '`npm start`',
    unit: 'port',
    byDefault: '8025',
    meaning: 'of the inbox; 0 takes a free one',
  },
  PURSER_SMTP_PORT: {
    usedBy: '`npm start`',
    unit: 'port',
    byDefault: '1025',
    meaning: 'of mail by SMTP; 0 takes a free one',
  },
  PURSER_PROVIDER_PORT: {
    usedBy: '`npm start`',
    unit: 'port',
    byDefault: '9080',
    meaning: 'of the identity provider; 0 takes a free one',
  },
  PURSER_BITCOIN_PORT: {
    usedBy: '`npm start`',
    unit: 'port',
    byDefault: '3002',
    meaning: 'of the local Bitcoin network; 0 takes a free one',
  },
  PURSER_BTCD_BINARY: {
    usedBy: '`npm start`',
    byDefault: 'built on first use',
    meaning: 'btcd program for the local Bitcoin network',
  },
  PURSER_CHROMIUM: {
    usedBy: 'tests',
    byDefault: 'the one on the `PATH`, else downloaded once',
    meaning: 'Chromium that looks at pages',
  },
} as const satisfies Readonly<Record<string, Variable>>;
