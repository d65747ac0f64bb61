import { describe, expect, it } from 'vitest';
import { makeProviderKeys } from '../../dev/provider-keys.ts';
import { adminConfig, apiConfig, workerConfig } from '../../shared/config.ts';

const api = {
  PURSER_ENV: 'sandbox',
  DATABASE_URL: 'postgres://purser_app:hunter2@127.0.0.1/purser',
  TEMPORAL_ADDRESS: '127.0.0.1:7233',
  PURSER_CHAINS: 'eip155:31337',
  PURSER_WEBHOOK_PUBLIC_KEY_FILE: '/keys/webhooks-public.json',
};
const production = { ...api, PURSER_ENV: 'production', PURSER_CHAINS: 'eip155:1' };
const signIn = {
  PURSER_TOKEN_KEYS_FILE: '/keys/tokens.jwks.json',
  PURSER_PUBLIC_URL: 'https://purser.example.com/',
  PURSER_OIDC_ISSUER: 'https://id.example.com/realm',
  PURSER_OIDC_CLIENT_ID: 'purser',
  PURSER_OIDC_CLIENT_SECRET: 'hunter2',
};
const worker = {
  ...api,
  PURSER_POLICY_KEY_FILE: '/keys/policy.json',
  PURSER_COORDINATOR_KEY_FILE: '/keys/coordinator.json',
  PURSER_SIGNERS: JSON.stringify([1, 2, 3].map((party) => ({ party, url: 'http://127.0.0.1:7101', publicKey: 'a.b' }))),
  PURSER_RPC_EIP155_31337: 'http://127.0.0.1:8545, http://127.0.0.1:8546',
  PURSER_SMTP_URL: 'smtps://purser:hunter2@mail.example.com',
  PURSER_MAIL_FROM: 'Purser <purser@example.com>',
  PURSER_PUBLIC_URL: 'https://purser.example.com/',
  PURSER_WEBHOOK_KEYS_FILE: '/keys/webhooks.jwks.json',
};
const message = (read: () => unknown): string => {
  try {
    read();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('nothing was wrong');
};

describe('configuration of the api', () => {
  it('has defaults for all that may be left out; an empty variable is left out', () => {
    const config = apiConfig({ ...api, PURSER_PORT: '', PURSER_DECISION_WAIT_MS: '' });
    expect(config).toMatchObject({ host: '127.0.0.1', port: 8080, decisionWaitMs: 2_000, logLevel: 'info' });
    expect(config.temporal).toEqual({ address: '127.0.0.1:7233', namespace: 'default', apiKey: undefined, tls: false });
  });

  it('names everything that is wrong, each in a sentence', () => {
    const text = message(() => apiConfig({ PURSER_ENV: 'test', PURSER_PORT: '99999', DATABASE_URL: 'mysql://x' }));
    expect(text).toMatch(/PURSER_ENV: /);
    expect(text).toMatch(/PURSER_PORT: /);
    expect(text).toMatch(/DATABASE_URL: is not a postgres:\/\/ URL/);
    expect(text).toMatch(/TEMPORAL_ADDRESS is missing\./);
    expect(text).toMatch(/PURSER_CHAINS is missing\./);
    expect(text).toMatch(/PURSER_WEBHOOK_PUBLIC_KEY_FILE is missing\./);
  });

  it('never repeats a value: some are secret', () => {
    expect(message(() => apiConfig({ ...api, DATABASE_URL: 'http://u:hunter2@h' }))).not.toContain('hunter2');
  });

  it('turns TLS on for an API key of Temporal Cloud, unless told otherwise', () => {
    expect(apiConfig({ ...api, TEMPORAL_API_KEY: 'k' }).temporal.tls).toBe(true);
    expect(apiConfig({ ...api, TEMPORAL_API_KEY: 'k', TEMPORAL_TLS: 'false' }).temporal.tls).toBe(false);
  });

  it('reads fees of x402 payments; without them there are none', () => {
    expect(apiConfig(api).feeTiers).toEqual([{ fromAmount: '0', rate: '0' }]);
    expect(apiConfig({ ...api, PURSER_X402_FEE_TIERS: '0=1,100=0.5' }).feeTiers).toHaveLength(2);
    expect(message(() => apiConfig({ ...api, PURSER_X402_FEE_TIERS: '5=1' }))).toMatch(
      /^.*\n {2}PURSER_X402_FEE_TIERS: must begin with a tier for all amounts/,
    );
  });

  it('keeps x402 targets off this machine and to well-known authorities, and in production always', () => {
    expect(apiConfig(api).targets).toEqual({ allowLoopback: false, caFile: undefined });
    const trying = { PURSER_LOOPBACK_TARGETS: 'on', PURSER_TARGET_CA_FILE: '/keys/ca.pem' };
    expect(apiConfig({ ...api, ...trying }).targets).toEqual({ allowLoopback: true, caFile: '/keys/ca.pem' });
    for (const [name, value] of Object.entries(trying)) {
      const env = { ...api, PURSER_ENV: 'production', PURSER_CHAINS: 'eip155:1', [name]: value };
      expect(message(() => apiConfig(env))).toMatch(new RegExp(`${name} .* refused in production`));
    }
  });

  it('names everything together that is for trying out, in production', () => {
    const env = {
      ...{ ...production, PURSER_CHAINS: 'eip155:1,eip155:84532,eip155:31337,eip155:5' },
      ...{ PURSER_FAUCET_URL: 'http://127.0.0.1:1', PURSER_LOOPBACK_TARGETS: 'on', PURSER_TARGET_CA_FILE: '/ca.pem' },
    };
    const text = message(() => apiConfig(env));
    expect(text).toMatch(
      /PURSER_CHAINS: Chain eip155:84532 \(Base Sepolia, testnet\) cannot be served in production\./,
    );
    expect(text).toMatch(/PURSER_CHAINS: Chain eip155:31337 \(Local, local\) cannot be served in production\./);
    expect(text).toMatch(/PURSER_CHAINS: Chain eip155:5 is not known/);
    expect(text).toMatch(/PURSER_FAUCET_URL .* refused in production/);
    expect(text).toMatch(/PURSER_LOOPBACK_TARGETS .* refused in production/);
    expect(text).toMatch(/PURSER_TARGET_CA_FILE .* refused in production/);
    expect(text).not.toContain('eip155:1 ');
  });

  it('refuses mainnets in sandbox, by name', () => {
    for (const read of [apiConfig, workerConfig])
      expect(message(() => read({ ...worker, PURSER_CHAINS: 'eip155:31337,eip155:8453' }))).toMatch(
        /PURSER_CHAINS: Chain eip155:8453 \(Base, mainnet\) cannot be served in sandbox\./,
      );
  });

  it('takes no tokens, lets nobody sign in, lets no page in and trusts no proxy, unless told to', () => {
    expect(apiConfig(api)).toMatchObject({
      ...{ tokenKeysFile: undefined, publicUrl: undefined, oidc: undefined, consoleUrl: undefined },
      ...{ signUp: 'first', corsOrigins: [], trustedProxies: [], failedAuthPerMinute: 10 },
    });
  });

  it('reads how people sign in', () => {
    const config = apiConfig({ ...api, ...signIn });
    expect(config.oidc).toEqual({
      ...{ issuer: 'https://id.example.com/realm', clientId: 'purser', clientSecret: 'hunter2' },
      ...{ scopes: 'openid email profile', trustsEmail: false },
    });
    expect(config).toMatchObject({ tokenKeysFile: '/keys/tokens.jwks.json', publicUrl: 'https://purser.example.com' });
    const { PURSER_OIDC_CLIENT_SECRET: _, ...isPublic } = signIn;
    const other = { PURSER_OIDC_EMAIL_VERIFIED: 'always', PURSER_OIDC_SCOPES: 'openid', PURSER_SIGN_UP: 'invited' };
    expect(apiConfig({ ...api, ...isPublic, ...other })).toMatchObject({
      oidc: { clientSecret: undefined, trustsEmail: true, scopes: 'openid' },
      signUp: 'invited',
    });
  });

  it('reads whose pages are let in and whose word for an address counts, as they are compared', () => {
    const config = apiConfig({
      ...api,
      PURSER_CORS_ORIGINS: 'https://console.example.com, http://localhost:3000',
      PURSER_TRUSTED_PROXIES: '10.0.0.0/8, 192.0.2.7,2001:DB8::/32, ::ffff:172.16.0.0/108',
    });
    expect(config.corsOrigins).toEqual(['https://console.example.com', 'http://localhost:3000']);
    expect(config.trustedProxies).toEqual(['10.0.0.0/8', '192.0.2.7/32', '2001:db8::/32', '172.16.0.0/12']);
  });

  it.each([
    ['PURSER_OIDC_CLIENT_ID', /PURSER_OIDC_ISSUER and PURSER_OIDC_CLIENT_ID belong together/],
    ['PURSER_OIDC_ISSUER', /PURSER_OIDC_ISSUER and PURSER_OIDC_CLIENT_ID belong together/],
    ['PURSER_TOKEN_KEYS_FILE', /PURSER_TOKEN_KEYS_FILE is missing: who signs in/],
    ['PURSER_PUBLIC_URL', /PURSER_PUBLIC_URL is missing: it stands in access tokens/],
  ])('says that sign-in cannot do without %s', (name, expected) => {
    expect(message(() => apiConfig({ ...api, ...signIn, [name]: '' }))).toMatch(expected);
  });

  it.each(['PURSER_OIDC_ISSUER', 'PURSER_PUBLIC_URL', 'PURSER_CONSOLE_URL'])(
    'wants %s to be read by nobody on its way in production',
    (name) => {
      const env = { ...production, ...signIn, PURSER_CONSOLE_URL: 'https://console.example.com' };
      expect(apiConfig(env).environment).toBe('production');
      expect(apiConfig({ ...env, [name]: 'http://127.0.0.1:9000' }).environment).toBe('production');
      expect(message(() => apiConfig({ ...env, [name]: 'http://id.example.com' }))).toMatch(
        new RegExp(`${name} must begin with https:// in production`),
      );
      expect(apiConfig({ ...api, ...signIn, [name]: 'http://id.example.com' }).environment).toBe('sandbox');
    },
  );

  it('refuses the identity provider of npm start in production', async () => {
    const { clientSecret } = await makeProviderKeys();
    const ofProvider = { ...signIn, PURSER_OIDC_CLIENT_SECRET: clientSecret };
    expect(apiConfig({ ...api, ...ofProvider }).oidc?.clientSecret).toBe(clientSecret);
    const text = message(() => apiConfig({ ...production, ...ofProvider }));
    expect(text).toMatch(/PURSER_OIDC_CLIENT_SECRET is of the identity provider of npm start/);
    expect(text).not.toContain(clientSecret);
  });

  it('lets in pages only that came unchanged in production', () => {
    const env = { ...production, PURSER_CORS_ORIGINS: 'http://localhost:3000,http://console.example.com' };
    expect(message(() => apiConfig(env))).toMatch(
      /PURSER_CORS_ORIGINS: http:\/\/console\.example\.com must begin with https:\/\/ in production/,
    );
    expect(apiConfig({ ...env, PURSER_CORS_ORIGINS: 'http://localhost:3000' }).corsOrigins).toHaveLength(1);
  });

  it.each([
    ['PURSER_PUBLIC_URL', 'purser.example.com'],
    ['PURSER_CONSOLE_URL', 'https://user:pass@console.example.com'],
    ['PURSER_CORS_ORIGINS', '*'],
    ['PURSER_CORS_ORIGINS', 'null'],
    ['PURSER_CORS_ORIGINS', 'https://console.example.com/'],
    ['PURSER_CORS_ORIGINS', 'https://Console.example.com'],
    ['PURSER_CORS_ORIGINS', 'https://*.example.com'],
    ['PURSER_CORS_ORIGINS', 'console.example.com'],
    ['PURSER_CORS_ORIGINS', 'chrome-extension://abc'],
    ['PURSER_TRUSTED_PROXIES', '0.0.0.0/0'],
    ['PURSER_TRUSTED_PROXIES', '10.0.0.0/8, ::/0'],
    ['PURSER_TRUSTED_PROXIES', '10.0.0.1/8'],
    ['PURSER_TRUSTED_PROXIES', 'loopback'],
    ['PURSER_TRUSTED_PROXIES', 'true'],
    ['PURSER_TRUSTED_PROXIES', '1'],
    ['PURSER_FAILED_AUTH_PER_MINUTE', '0'],
    ['PURSER_FAILED_AUTH_PER_MINUTE', 'ten'],
    ['PURSER_OIDC_ISSUER', 'id.example.com'],
    ['PURSER_OIDC_ISSUER', 'ftp://id.example.com'],
    ['PURSER_OIDC_EMAIL_VERIFIED', 'never'],
    ['PURSER_SIGN_UP', 'everybody'],
    ['PURSER_LOOPBACK_TARGETS', 'yes'],
    ['PURSER_FAUCET_URL', 'faucet'],
    ['PURSER_DECISION_WAIT_MS', '0'],
    ['PURSER_DATABASE_POOL', '0'],
    ['PURSER_CHAINS', 'base'],
    ['PURSER_CHAINS', ' , '],
    ['PURSER_LOG_LEVEL', 'loud'],
    ['PURSER_ENV', 'staging'],
    ['PURSER_CONFIRMATIONS_EIP155_31337', '0'],
  ])('refuses %s = %j by its name', (name, value) => {
    const text = message(() => apiConfig({ ...api, ...signIn, [name]: value }));
    expect(text).toContain(`${name}: `);
    expect(text.split('\n')).toHaveLength(2);
    expect(text).not.toContain('hunter2');
  });

  it.each([
    'eip155:31337=USDC/6',
    'eip155:31337/erc20:0x12=USDC/6',
    'eip155:31337/erc20:0x7EC91C24b113A80Cd70e4877245434E4f065F96F=USDC',
    'eip155:31337/erc20:0x7eC91C24b113A80Cd70e4877245434E4f065F96F=USDC/6',
    'eip155:31337/trc20:0x7EC91C24b113A80Cd70e4877245434E4f065F96F=USDC/6',
    'eip155:31337/erc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t=USDT/6',
    'tron:0xcd8690dc/trc20:0x7EC91C24b113A80Cd70e4877245434E4f065F96F=USDT/6',
    'tron:0xcd8690dc/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6T=USDT/6',
    'tron:0xcd8690dc/erc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t=USDT/6',
    'tron:0xcd8690dc/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t=USDT/6/Tether USD/1',
    'bip122:0f9188f13cb7b2c71f2a335e3a4fc328/erc20:0x7EC91C24b113A80Cd70e4877245434E4f065F96F=USDC/6',
  ])('refuses the token %j and shows one that is right', (text) => {
    const told = message(() => apiConfig({ ...api, PURSER_EXTRA_TOKENS: text }));
    expect(told).toContain('eip155:31337/erc20:0x…=USDC/6');
    expect(told).toContain('tron:0x2b6653dc/trc20:T…=USDT/6');
  });

  it('reads tokens of every family that has some, each address in its one written form', () => {
    const erc20 = '0x7EC91C24b113A80Cd70e4877245434E4f065F96F';
    const trc20 = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';
    const tokens = [
      `eip155:31337/erc20:${erc20.toLowerCase()}=usdc/6/USD Coin/2`,
      `tron:0xcd8690dc/trc20:${trc20}=usdt/6`,
    ];
    expect(apiConfig({ ...api, PURSER_EXTRA_TOKENS: tokens.join(', ') }).registry.extraTokens).toEqual([
      {
        ...{ chain: 'eip155:31337', asset: erc20, symbol: 'USDC', decimals: 6 },
        domain: { name: 'USD Coin', version: '2' },
      },
      { chain: 'tron:0xcd8690dc', asset: trc20, symbol: 'USDT', decimals: 6 },
    ]);
  });
});

describe('configuration of an operator', () => {
  const { DATABASE_URL, PURSER_ENV, TEMPORAL_ADDRESS } = api;

  it('needs neither Temporal nor chains, and uses Temporal where it is told of it', () => {
    expect(adminConfig({ DATABASE_URL, PURSER_ENV }).temporal).toBeUndefined();
    expect(adminConfig({ DATABASE_URL, PURSER_ENV, TEMPORAL_ADDRESS }).temporal?.address).toBe(TEMPORAL_ADDRESS);
  });

  it.each([
    ['sandbox', undefined, 'on'],
    ['sandbox', 'off', 'off'],
    ['production', undefined, 'off'],
    ['production', 'on', 'on'],
  ])('in %s with PURSER_OPERATOR_APPROVALS %s has decisions by operators %s', (environment, setting, expected) => {
    const env = { DATABASE_URL, PURSER_ENV: environment, PURSER_OPERATOR_APPROVALS: setting };
    expect(adminConfig(env).operatorApprovals).toBe(expected);
  });
});

describe('configuration of a worker', () => {
  it('asks of each queue only what that queue needs', () => {
    const { TEMPORAL_ADDRESS, PURSER_ENV, PURSER_CHAINS, PURSER_SIGNERS, PURSER_COORDINATOR_KEY_FILE } = worker;
    const signing = { TEMPORAL_ADDRESS, PURSER_ENV, PURSER_CHAINS, PURSER_SIGNERS, PURSER_COORDINATOR_KEY_FILE };
    expect(workerConfig({ ...signing, PURSER_QUEUES: 'wallet-signing' }).database).toBeUndefined();
    const text = message(() => workerConfig({ ...signing, PURSER_QUEUES: 'wallet,wallet-chain' }));
    expect(text).toMatch(/DATABASE_URL is missing: queue wallet, wallet-chain needs it/);
    expect(text).toMatch(/PURSER_POLICY_KEY_FILE is missing: queue wallet needs it/);
    expect(text).toMatch(/PURSER_RPC_EIP155_31337 is missing/);
  });

  it('wants of the queue that sends mail and events the server, the sender, where its links lead, and the keys of secrets', () => {
    const { TEMPORAL_ADDRESS, PURSER_ENV, PURSER_CHAINS } = worker;
    const text = message(() =>
      workerConfig({ TEMPORAL_ADDRESS, PURSER_ENV, PURSER_CHAINS, PURSER_QUEUES: 'wallet-webhooks' }),
    );
    for (const name of [
      'DATABASE_URL',
      'PURSER_SMTP_URL',
      'PURSER_MAIL_FROM',
      'PURSER_PUBLIC_URL',
      'PURSER_WEBHOOK_KEYS_FILE',
    ])
      expect(text).toContain(`${name} is missing: queue wallet-webhooks needs it.`);
  });

  it('reads where mail goes out and where its links lead', () => {
    expect(workerConfig(worker)).toMatchObject({
      smtpServer: { host: 'mail.example.com', port: 465, secure: true, auth: { user: 'purser', pass: 'hunter2' } },
      mailFrom: { name: 'Purser', address: 'purser@example.com' },
      publicUrl: 'https://purser.example.com',
    });
    expect(
      workerConfig({
        ...worker,
        PURSER_SMTP_URL: 'smtp://a%40b:p%2Fw@[::1]',
        PURSER_MAIL_FROM: 'purser@example.com',
        PURSER_PUBLIC_URL: 'http://127.0.0.1:8080/pay/',
      }),
    ).toMatchObject({
      smtpServer: { host: '::1', port: 587, secure: false, auth: { user: 'a@b', pass: 'p/w' } },
      mailFrom: { name: '', address: 'purser@example.com' },
      publicUrl: 'http://127.0.0.1:8080/pay',
    });
  });

  it('refreshes keys once a month and tells nobody of alerts, unless told otherwise', () => {
    expect(workerConfig(worker)).toMatchObject({ keyRefreshDays: 30, alertTo: [] });
    expect(
      workerConfig({
        ...{ ...worker, PURSER_KEY_REFRESH_DAYS: '0' },
        PURSER_ALERT_TO: 'Ops <ops@example.com>, duty@example.com',
      }),
    ).toMatchObject({
      keyRefreshDays: 0,
      alertTo: [
        { name: 'Ops', address: 'ops@example.com' },
        { name: '', address: 'duty@example.com' },
      ],
    });
    for (const wrong of ['-1', '0.5', '4000', 'monthly'])
      expect(message(() => workerConfig({ ...worker, PURSER_KEY_REFRESH_DAYS: wrong }))).toMatch(
        /PURSER_KEY_REFRESH_DAYS: /,
      );
    expect(message(() => workerConfig({ ...worker, PURSER_ALERT_TO: 'ops' }))).toMatch(
      /PURSER_ALERT_TO: is not like Purser <purser@example.com>/,
    );
  });

  it('never repeats the password of the mail server', () => {
    for (const url of ['smtps://purser:hunter2@mail.example.com?x', 'smtp://purser:hunter2%@h', 'ftp://u:hunter2@h'])
      expect(message(() => workerConfig({ ...worker, PURSER_SMTP_URL: url }))).not.toContain('hunter2');
  });

  it('wants links that are read by nobody on their way in production', () => {
    const production = {
      ...worker,
      PURSER_ENV: 'production',
      PURSER_CHAINS: 'eip155:1',
      PURSER_RPC_EIP155_1: 'http://h',
    };
    expect(workerConfig(production).publicUrl).toBe('https://purser.example.com');
    expect(message(() => workerConfig({ ...production, PURSER_PUBLIC_URL: 'http://purser.example.com' }))).toMatch(
      /PURSER_PUBLIC_URL must begin with https:\/\/ in production/,
    );
  });

  it('keeps servers that users name off this machine and to well-known authorities, and in production always', () => {
    expect(workerConfig(worker).targets).toEqual({ allowLoopback: false, caFile: undefined });
    const trying = { PURSER_LOOPBACK_TARGETS: 'on', PURSER_TARGET_CA_FILE: '/keys/ca.pem' };
    expect(workerConfig({ ...worker, ...trying }).targets).toEqual({ allowLoopback: true, caFile: '/keys/ca.pem' });
    for (const [name, value] of Object.entries(trying)) {
      const env = {
        ...worker,
        PURSER_ENV: 'production',
        PURSER_CHAINS: 'eip155:1',
        PURSER_RPC_EIP155_1: 'http://h',
        [name]: value,
      };
      expect(message(() => workerConfig(env))).toMatch(new RegExp(`${name} .* refused in production`));
    }
  });

  it('keeps events for 13 months and the audit log for 25, unless told otherwise; that one at least a year', () => {
    expect(workerConfig(worker).retention).toEqual({ eventMonths: 13, auditMonths: 25 });
    const shortest = { PURSER_EVENT_MONTHS: '1', PURSER_AUDIT_MONTHS: '12' };
    expect(workerConfig({ ...worker, ...shortest }).retention).toEqual({ eventMonths: 1, auditMonths: 12 });
  });

  it('reads what is said for one chain: endpoints, depth, fee ceiling to the wei', () => {
    const config = workerConfig({
      ...worker,
      PURSER_CONFIRMATIONS_EIP155_31337: '5',
      PURSER_MAX_FEE_GWEI_EIP155_31337: '1.000000001',
    });
    expect(config.rpc).toEqual({ 'eip155:31337': ['http://127.0.0.1:8545', 'http://127.0.0.1:8546'] });
    expect(config.registry.confirmations).toEqual({ 'eip155:31337': 5 });
    expect(config.maxFee).toEqual({ 'eip155:31337': 1_000_000_001n });
  });

  const bitcoin = 'bip122:000000000019d6689c085ae165831e93';
  const tron = 'tron:0x2b6653dc';
  const families = {
    ...{ ...worker, PURSER_ENV: 'production', PURSER_CHAINS: `eip155:1,${bitcoin},${tron}` },
    PURSER_RPC_EIP155_1: 'https://eth.example.com',
    PURSER_RPC_BIP122_000000000019D6689C085AE165831E93: 'https://btc.example.com/api',
    PURSER_RPC_TRON_0X2B6653DC: 'https://tron.example.com, https://tron.example.org',
  };

  it('reads the same for chains of every family, ceilings in the unit of each', () => {
    const config = workerConfig({
      ...families,
      PURSER_CONFIRMATIONS_BIP122_000000000019D6689C085AE165831E93: '6',
      PURSER_CONFIRMATIONS_TRON_0X2B6653DC: '27',
      PURSER_MAX_FEE_GWEI_EIP155_1: '80',
      PURSER_MAX_FEE_SAT_PER_VB_BIP122_000000000019D6689C085AE165831E93: '150.001',
      PURSER_MAX_FEE_TRX_TRON_0X2B6653DC: '30.5',
      PURSER_SPEED_UP_AFTER_BLOCKS_BIP122_000000000019D6689C085AE165831E93: '2',
    });
    expect(config.rpc).toEqual({
      'eip155:1': ['https://eth.example.com'],
      [bitcoin]: ['https://btc.example.com/api'],
      [tron]: ['https://tron.example.com', 'https://tron.example.org'],
    });
    expect(config.registry.confirmations).toEqual({ [bitcoin]: 6, [tron]: 27 });
    expect(config.maxFee).toEqual({ 'eip155:1': 80_000_000_000n, [bitcoin]: 150_001n, [tron]: 30_500_000n });
    expect(config.speedUpAfterBlocks).toEqual({ [bitcoin]: 2 });
    expect(workerConfig(families)).toMatchObject({ maxFee: {}, speedUpAfterBlocks: {} });
  });

  it.each([
    ['PURSER_MAX_FEE_GWEI_BIP122_000000000019D6689C085AE165831E93', 'Set PURSER_MAX_FEE_SAT_PER_VB_BIP122_0000'],
    ['PURSER_MAX_FEE_TRX_BIP122_000000000019D6689C085AE165831E93', 'Set PURSER_MAX_FEE_SAT_PER_VB_BIP122_0000'],
    ['PURSER_MAX_FEE_GWEI_TRON_0X2B6653DC', 'Set PURSER_MAX_FEE_TRX_TRON_0X2B6653DC instead.'],
    ['PURSER_MAX_FEE_SAT_PER_VB_EIP155_1', 'Set PURSER_MAX_FEE_GWEI_EIP155_1 instead.'],
    ['PURSER_SPEED_UP_AFTER_BLOCKS_TRON_0X2B6653DC', 'can do nothing. A signed transaction on Tron'],
  ])('refuses %s, which its chain would not heed', (name, expected) => {
    const text = message(() => workerConfig({ ...families, [name]: '20' }));
    expect(text).toContain(`  ${name} `);
    expect(text).toContain(expected);
    expect(text.split('\n')).toHaveLength(2);
  });

  it.each([
    ['PURSER_MAX_FEE_SAT_PER_VB_BIP122_000000000019D6689C085AE165831E93', '1.0001'],
    ['PURSER_MAX_FEE_SAT_PER_VB_BIP122_000000000019D6689C085AE165831E93', '-1'],
    ['PURSER_MAX_FEE_TRX_TRON_0X2B6653DC', '1.0000001'],
    ['PURSER_MAX_FEE_TRX_TRON_0X2B6653DC', '1e3'],
    ['PURSER_MAX_FEE_GWEI_EIP155_1', '0x10'],
    ['PURSER_CONFIRMATIONS_TRON_0X2B6653DC', '0'],
  ])('refuses %s = %j', (name, value) => {
    expect(message(() => workerConfig({ ...families, [name]: value }))).toContain(`${name}: `);
  });

  it('still says what is wrong with the chains where one is of no family that is known', () => {
    const text = message(() => workerConfig({ ...worker, PURSER_CHAINS: 'solana:4sGjMW1sUnHzSxGspuhpqLDx6wiyjNtZ' }));
    expect(text).toContain('PURSER_CHAINS: Chain solana:4sGjMW1sUnHzSxGspuhpqLDx6wiyjNtZ is not known.');
  });

  it.each([
    ['PURSER_QUEUES', 'wallet,other'],
    ['PURSER_SIGNERS', '{'],
    ['PURSER_SIGNERS', '[]'],
    ['PURSER_MAX_IN_FLIGHT', '0'],
    ['PURSER_EVENT_MONTHS', '0'],
    ['PURSER_AUDIT_MONTHS', '11'],
    ['PURSER_RPC_EIP155_31337', 'ftp://h'],
    ['PURSER_RPC_EIP155_31337', 'https://h/v1, https://i, https://h/v1/'],
    ['PURSER_CONFIRMATIONS_EIP155_31337', '0'],
    ['PURSER_MAX_FEE_GWEI_EIP155_31337', '1e9'],
    ['PURSER_SMTP_URL', 'mail.example.com:465'],
    ['PURSER_SMTP_URL', 'https://mail.example.com'],
    ['PURSER_SMTP_URL', 'smtps://purser@mail.example.com'],
    ['PURSER_SMTP_URL', 'smtps://mail.example.com?tls.rejectUnauthorized=false'],
    ['PURSER_SMTP_URL', 'smtps://purser:100%@mail.example.com'],
    ['PURSER_MAIL_FROM', 'Purser'],
    ['PURSER_MAIL_FROM', 'Purser <purser@example.com>, other@example.com'],
    ['PURSER_MAIL_FROM', 'Purser\r\nBcc: all@example.com <purser@example.com>'],
    ['PURSER_PUBLIC_URL', 'purser.example.com'],
    ['PURSER_PUBLIC_URL', 'https://purser.example.com/?a=b'],
  ])('refuses %s = %j by its name', (name, value) => {
    expect(message(() => workerConfig({ ...worker, [name]: value }))).toContain(name);
  });
});
