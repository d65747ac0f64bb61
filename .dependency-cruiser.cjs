// The arrows between folders that are allowed; everything else inside the project is refused.
// The parser is swc: dependency-cruiser cannot use TypeScript 7, which has no JavaScript interface. swc sees type
// imports like others, so a type import is an arrow as well; test/unit/structure.test.ts adds what it cannot tell.

/** What a caller of the signers needs; the rest of signer/ is the signer itself. */
const signerClient = 'signer/(client|errors|identity)\\.ts$';

/** Folder → what it may import besides itself and packages. dev, bench and test put the others together: they may all. */
const arrows = {
  api: ['shared'],
  workflows: ['shared/domain', 'shared/temporal(-headers)?\\.ts$', 'activities'],
  activities: ['shared', signerClient],
  worker: ['workflows', 'activities', 'shared', signerClient],
  signer: [
    'shared/domain',
    'shared/chain',
    'shared/receipt\\.ts$',
    'shared/freeze-order\\.ts$',
    'shared/log\\.ts$',
    'shared/log-context\\.ts$',
    'shared/metrics/(open|serve)-metrics\\.ts$',
    'shared/stop-signal\\.ts$',
    'shared/(command-line|tell-progress)\\.ts$',
    'shared/config-values\\.ts$',
    'shared/extra-token\\.ts$',
    'shared/(unknown-)?variables\\.ts$',
  ],
  shared: [],
  // What users' programs import: as little as can be.
  sdk: ['shared/domain', 'shared/(audit-chain|command-line|tell-progress)\\.ts$'],
};

const within = (paths) => paths.map((path) => (path.endsWith('$') ? `^${path}` : `^${path}/`));

module.exports = {
  forbidden: [
    {
      name: 'no-cycles',
      comment: 'Two files that need each other are one idea, or a third is hidden in them.',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    ...Object.entries(arrows).map(([folder, allowed]) => ({
      name: `arrows-of-${folder}`,
      comment: `${folder}/ imports itself and ${allowed.join(', ') || 'nothing else'}. See the layout in README.md.`,
      severity: 'error',
      from: { path: `^${folder}/` },
      to: {
        path: '^(api|workflows|activities|worker|signer|shared|sdk|dev|bench|test)/',
        pathNot: within([folder, ...allowed]),
      },
    })),
    {
      name: 'families-behind-their-seam',
      comment:
        'What a family of chains is and does is asked through familyOf and ChainAdapter. x402 is of EVM chains alone; the signers read by code of their own.',
      severity: 'error',
      from: {
        path: '^(api|workflows|activities|worker|shared|sdk)/',
        pathNot: [
          '^shared/chain/(evm|bitcoin|tron)/',
          '^shared/chain/(families|create-adapter)\\.ts$',
          '^activities/(authorization-of|issue-authorization)\\.ts$',
        ],
      },
      to: { path: '^shared/chain/(evm|bitcoin|tron)/' },
    },
    {
      name: 'families-apart',
      comment: 'No family of chains knows another one; what they share is beside them.',
      severity: 'error',
      from: { path: '^shared/chain/(evm|bitcoin|tron)/' },
      to: { path: '^shared/chain/(evm|bitcoin|tron)/', pathNot: '^shared/chain/$1/' },
    },
    {
      name: 'workflows-are-deterministic',
      comment: 'Workflow code may use the workflow package only: no Node module, no validation, no chain library.',
      severity: 'error',
      from: { path: '^workflows/' },
      to: { dependencyTypes: ['core', 'npm', 'npm-dev'], pathNot: 'node_modules/@temporalio/(workflow|common)/' },
    },
    {
      name: 'domain-is-pure',
      comment: 'Decisions take data and return data: no input or output, no framework.',
      severity: 'error',
      from: { path: '^shared/domain/' },
      to: { path: '^(?!shared/domain/)(api|workflows|activities|worker|signer|shared|sdk|dev)/' },
    },
    {
      name: 'resolvable',
      comment: 'An import that leads nowhere would escape the other rules.',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: 'production-without-dev-packages',
      comment: 'The image holds no development packages.',
      severity: 'error',
      from: { path: '^(api|workflows|activities|worker|signer|shared|sdk)/' },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['npm'] },
    },
  ],
  options: {
    parser: 'swc',
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(^|/)(\\.cache|target)/|^signer/engine/pkg/' },
    enhancedResolveOptions: {
      extensions: ['.ts', '.js', '.mjs', '.cjs', '.json'],
      conditionNames: ['import', 'node', 'default'],
      exportsFields: ['exports'],
    },
  },
};
