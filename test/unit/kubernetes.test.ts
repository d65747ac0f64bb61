import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as apps from 'kubernetes-models/apps/v1';
import * as batch from 'kubernetes-models/batch/v1';
import * as networking from 'kubernetes-models/networking.k8s.io/v1';
import * as disruption from 'kubernetes-models/policy/v1';
import * as core from 'kubernetes-models/v1';
import { beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { apiConfig, workerConfig } from '../../shared/config.ts';
import { isKnownVariable } from '../../shared/unknown-variables.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = join(root, 'deploy', 'kubernetes');

interface Container {
  name: string;
  image: string;
  command: string[];
  env?: { name: string; value: string }[];
  envFrom?: { configMapRef?: { name: string }; secretRef?: { name: string } }[];
  ports?: { name: string; containerPort: number }[];
  resources: { requests: Record<string, string>; limits: Record<string, string> };
  securityContext: object;
  volumeMounts?: { name: string; mountPath: string; readOnly?: boolean }[];
  readinessProbe?: { httpGet: { path: string; port: string } };
  livenessProbe?: { httpGet?: { port: string }; tcpSocket?: { port: string } };
}
interface Pod {
  terminationGracePeriodSeconds?: number;
  automountServiceAccountToken: boolean;
  securityContext: object;
  containers: Container[];
  volumes?: { name: string; secret?: { secretName: string } }[];
}
type Labels = Record<string, string>;
interface Peer {
  namespaceSelector?: { matchLabels: Labels };
  podSelector?: { matchLabels: Labels };
  ipBlock?: { cidr: string; except?: string[] };
}
interface Rule {
  from?: Peer[];
  to?: Peer[];
  ports?: { port: number }[];
}
interface Manifest {
  file: string;
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Labels };
  data?: Record<string, string>;
  stringData?: Record<string, string>;
  // biome-ignore lint/suspicious/noExplicitAny: each kind has its own; the schema has checked it.
  spec?: any;
}

/** As `kubectl apply` reads them. */
function readManifests(pattern: string): Manifest[] {
  return globSync(pattern, { cwd: folder }).flatMap((file) =>
    parseAllDocuments(readFileSync(join(folder, file), 'utf8')).map((document) => {
      expect(document.errors, file).toEqual([]);
      return { file, ...(document.toJS() as Omit<Manifest, 'file'>) };
    }),
  );
}
const applied = readManifests('*.yaml');
const examples = readManifests('examples/*.yaml');
const all = [...applied, ...examples];
const of = (kind: string) => all.filter((manifest) => manifest.kind === kind);
const nameOf = ({ kind, metadata }: Manifest) => `${metadata.namespace}/${kind}/${metadata.name}`;
const workloads = applied.filter(({ spec }) => spec?.template);
const podOf = ({ spec }: Manifest) => spec.template.spec as Pod;
const labelsOf = ({ spec }: Manifest) => spec.template.metadata.labels as Labels;
const workload = (component: string, namespace = 'purser') =>
  workloads.find(
    (one) => labelsOf(one)['app.kubernetes.io/component'] === component && one.metadata.namespace === namespace,
  )!;
const selects = (labels: Labels, wanted: Labels = {}) =>
  Object.entries(wanted).every(([name, value]) => labels[name] === value);

/** What a container finds in its environment when everything is applied, examples included. */
function environmentOf(manifest: Manifest): Record<string, string> {
  const [container] = podOf(manifest).containers;
  const { namespace } = manifest.metadata;
  const from = (container!.envFrom ?? []).map(({ configMapRef, secretRef }) => {
    const [kind, name] = configMapRef ? ['ConfigMap', configMapRef.name] : ['Secret', secretRef!.name];
    const found = examples.find((one) => nameOf(one) === `${namespace}/${kind}/${name}`);
    expect(found, `${nameOf(manifest)} wants ${kind} ${name}`).toBeDefined();
    return found!.data ?? found!.stringData!;
  });
  return Object.assign({}, ...from, Object.fromEntries((container!.env ?? []).map(({ name, value }) => [name, value])));
}

describe('the manifests for Kubernetes', () => {
  it('are what the schemas of Kubernetes allow, and of kinds that it knows', () => {
    expect(all.length).toBeGreaterThan(40);
    for (const { file, ...manifest } of all)
      expect(findFaults(manifest), `${file}: ${manifest.kind} ${manifest.metadata.name}`).toEqual([]);
  });

  it('would not pass with a wrong, a missing or a misspelt field', () => {
    const { file: _, ...manifest } = workload('api');
    const faultsWith = (change: object, container: object = {}) => {
      const copy = structuredClone(manifest);
      Object.assign(copy.spec.template.spec.containers[0], container);
      return findFaults({ ...copy, spec: { ...copy.spec, ...change } });
    };
    expect(faultsWith({ replicas: 'two' })).toEqual([expect.stringContaining('replicas')]);
    expect(faultsWith({ selector: undefined })).toEqual([expect.stringContaining('selector')]);
    expect(faultsWith({}, { imag: 'x' })).toEqual([
      '/spec/template/spec/containers/0/imag is no field that Kubernetes knows',
    ]);
  });

  it('name each thing once, in a namespace that is made', () => {
    const names = all.map(nameOf);
    expect(new Set(names).size).toBe(names.length);
    const namespaces = of('Namespace').map(({ metadata }) => metadata.name);
    expect(namespaces).toEqual(['purser', 'purser-signer-1', 'purser-signer-2', 'purser-signer-3']);
    for (const one of all.filter(({ kind }) => kind !== 'Namespace'))
      expect(namespaces, nameOf(one)).toContain(one.metadata.namespace);
  });

  it('apply without the examples, which hold no secret', () => {
    expect(applied.filter(({ kind }) => ['Secret', 'ConfigMap'].includes(kind))).toEqual([]);
    for (const { stringData } of of('Secret'))
      for (const [name, value] of Object.entries(stringData!))
        expect(value, name).toMatch(/PASSWORD|KEY|CLIENT_ID|CLIENT_SECRET|example\.com|^\d{1,3}$/);
  });
});

describe('every pod', () => {
  it.each(workloads.map((one) => [nameOf(one), one] as const))('%s has no rights that it does not need', (_, one) => {
    const pod = podOf(one);
    expect(pod.automountServiceAccountToken).toBe(false);
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
    for (const { securityContext, resources } of pod.containers) {
      expect(securityContext).toEqual({
        ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
      });
      expect(resources.requests).toHaveProperty('cpu');
      expect(resources.limits).toHaveProperty('memory');
    }
  });

  it.each(workloads.map((one) => [nameOf(one), one] as const))('%s runs what the image holds', (_, one) => {
    const copied = readFileSync(join(root, 'deploy/Dockerfile'), 'utf8');
    for (const { command, image } of podOf(one).containers) {
      const [program, file] = command;
      expect([program, existsSync(join(root, file!))]).toEqual(['node', true]);
      expect(copied).toContain(`COPY ${file!.split('/')[0]} `);
      expect(image).toBe(`registry.example.com/purser:${packageVersion()}`);
    }
  });

  it.each(workloads.map((one) => [nameOf(one), one] as const))('%s is told only variables that are read', (_, one) => {
    expect(Object.keys(environmentOf(one)).filter((name) => !isKnownVariable(name))).toEqual([]);
  });

  it.each(workloads.map((one) => [nameOf(one), one] as const))('%s mounts what it names', (_, one) => {
    const claims = (one.spec.volumeClaimTemplates ?? []).map((claim: Manifest) => claim.metadata.name);
    const volumes = [...(podOf(one).volumes ?? []).map(({ name }) => name), ...claims];
    const [container] = podOf(one).containers;
    expect((container!.volumeMounts ?? []).map(({ name }) => name).sort()).toEqual(volumes.sort());
    const ports = (container!.ports ?? []).map(({ name }) => name);
    for (const probe of [container!.readinessProbe, container!.livenessProbe])
      if (probe) expect(ports).toContain(probe.httpGet?.port ?? (probe as Container['livenessProbe'])!.tcpSocket!.port);
  });

  it.each(workloads.filter(({ kind }) => kind !== 'Job').map((one) => [nameOf(one), one] as const))(
    '%s serves metrics where they are looked for',
    (_, one) => {
      const [container] = podOf(one).containers;
      const port = container!.ports!.find(({ name }) => name === 'metrics')!.containerPort;
      expect(one.spec.template.metadata.annotations['prometheus.io/port']).toBe(String(port));
      expect(environmentOf(one)).toMatchObject({ PURSER_METRICS_HOST: '0.0.0.0', PURSER_METRICS_PORT: String(port) });
    },
  );

  it.each(workloads.map((one) => [nameOf(one), one] as const))('%s is selected by what selects its kind', (_, one) => {
    if (one.kind !== 'Job') expect(selects(labelsOf(one), one.spec.selector.matchLabels)).toBe(true);
    if (one.kind !== 'Deployment') return;
    const budgets = of('PodDisruptionBudget').filter(({ spec }) => selects(labelsOf(one), spec.selector.matchLabels));
    expect(budgets.map(({ metadata }) => metadata.name)).toEqual([one.metadata.name]);
    expect(one.spec.replicas).toBeGreaterThanOrEqual(2);
  });
});

describe('the processes', () => {
  it('start with what they are told: the api', () => {
    expect(apiConfig(environmentOf(workload('api')))).toMatchObject({ environment: 'production', port: 8080 });
  });

  it.each([
    ['worker-wallet', 'wallet'],
    ['worker-signing', 'wallet-signing'],
    ['worker-chain', 'wallet-chain'],
    ['worker-webhooks', 'wallet-webhooks'],
  ])('start with what they are told: %s', (component, queue) => {
    expect(workerConfig(environmentOf(workload(component))).queues).toEqual([queue]);
  });

  it('have as long to stop as with Docker Compose', () => {
    const compose = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
    for (const component of ['worker-wallet', 'worker-signing', 'worker-chain', 'worker-webhooks'])
      expect(compose).toContain(`stop_grace_period: ${podOf(workload(component)).terminationGracePeriodSeconds}s`);
  });

  it('serve each queue once, and give the database to none that signs', () => {
    const queues = workloads.map((one) => environmentOf(one).PURSER_QUEUES).filter((queue) => queue !== undefined);
    expect(queues.sort()).toEqual(['wallet', 'wallet-chain', 'wallet-signing', 'wallet-webhooks']);
    expect(environmentOf(workload('worker-signing'))).not.toHaveProperty('DATABASE_URL');
    for (const party of [1, 2, 3])
      expect(environmentOf(workload('signer', `purser-signer-${party}`))).toMatchObject({
        PURSER_SIGNER_PARTY: String(party),
      });
  });

  it('find the keys that deploy/init-keys.sh makes, in secrets that one command fills', () => {
    const made = readFileSync(join(root, 'deploy/init-keys.sh'), 'utf8');
    const filled = readFileSync(join(folder, 'create-secrets.sh'), 'utf8');
    for (const one of workloads) {
      const secret = podOf(one).volumes?.find(({ name }) => name === 'keys')?.secret?.secretName;
      if (!secret) continue;
      const put = new RegExp(`^put ${one.metadata.namespace} ${secret} (\\S+)$`, 'm').exec(filled);
      expect(put, nameOf(one)).not.toBeNull();
      expect(made).toContain(`"$dir/${put![1]}`);
    }
    expect(filled).not.toContain('operator\n');
  });

  it('reach the signers by the names of their services', () => {
    const { signers } = workerConfig(environmentOf(workload('worker-signing')));
    for (const { party, url } of signers!) {
      const { hostname, port } = new URL(url);
      const [name, namespace] = hostname.split('.');
      const service = of('Service').find((one) => nameOf(one) === `${namespace}/Service/${name}`)!;
      expect(namespace).toBe(`purser-signer-${party}`);
      expect(service.spec.ports[0].port).toBe(Number(port));
      expect(selects(labelsOf(workload('signer', namespace)), service.spec.selector)).toBe(true);
    }
  });

  it('of signers are not restarted together by what is applied, and keep their shares', () => {
    for (const one of of('StatefulSet')) {
      expect(one.spec).toMatchObject({ replicas: 1, updateStrategy: { type: 'OnDelete' } });
      expect(one.spec.persistentVolumeClaimRetentionPolicy).toEqual({ whenDeleted: 'Retain', whenScaled: 'Retain' });
      const store = podOf(one).containers[0]!.volumeMounts!.find(({ name }) => name === 'store')!;
      expect(environmentOf(one).PURSER_SIGNER_DATA_DIR!.startsWith(`${store.mountPath}/`)).toBe(true);
    }
  });
});

/** Whether the policies let one pod connect to another, or to a namespace that is not ours. */
function lets(from: End, to: End, port: number): boolean {
  const sides = [
    { end: from, other: to, type: 'Egress' as const },
    { end: to, other: from, type: 'Ingress' as const },
  ];
  return sides.every(({ end, other, type }) => {
    const policies = of('NetworkPolicy').filter(
      ({ metadata, spec }) =>
        metadata.namespace === end.namespace &&
        spec.policyTypes.includes(type) &&
        selects(end.labels, spec.podSelector.matchLabels),
    );
    if (policies.length === 0) return true;
    const rules = policies.flatMap(({ spec }) => (type === 'Egress' ? spec.egress : spec.ingress) ?? []) as Rule[];
    return rules.some(
      ({ ports, ...rule }) =>
        (ports?.some((allowed) => allowed.port === port) ?? true) &&
        (rule[type === 'Egress' ? 'to' : 'from'] ?? []).some((peer) => isMeant(peer, other)),
    );
  });
}
interface End {
  readonly namespace: string;
  readonly labels: Labels;
}
const isMeant = (peer: Peer, { namespace, labels }: End) =>
  peer.ipBlock
    ? namespace === 'the internet'
    : selects({ 'kubernetes.io/metadata.name': namespace }, peer.namespaceSelector?.matchLabels) &&
      selects(labels, peer.podSelector?.matchLabels);

describe('the network', () => {
  const ends: Record<string, End> = {};
  beforeAll(() => {
    for (const one of workloads)
      ends[one.kind === 'StatefulSet' ? one.metadata.namespace! : one.metadata.name] = {
        namespace: one.metadata.namespace!,
        labels: labelsOf(one),
      };
    ends.dns = { namespace: 'kube-system', labels: { 'k8s-app': 'kube-dns' } };
    for (const namespace of ['postgres', 'temporal', 'monitoring', 'ingress-nginx', 'the internet', 'somebody else'])
      ends[namespace] = { namespace, labels: {} };
  });
  const ports = [53, 443, 4318, 5432, 7100, 7233, 8080, 9464];
  const reached = (name: string) =>
    Object.keys(ends).flatMap((other) =>
      ports.filter((port) => name !== other && lets(ends[name]!, ends[other]!, port)).map((port) => `${other}:${port}`),
    );
  const reaching = (name: string) =>
    Object.keys(ends).flatMap((other) =>
      ports.filter((port) => name !== other && lets(ends[other]!, ends[name]!, port)).map((port) => `${other}:${port}`),
    );
  const anywhere = ports.map((port) => `the internet:${port}`);
  const signers = ['purser-signer-1', 'purser-signer-2', 'purser-signer-3'];

  it.each(signers)('of %s: it reaches nothing, and only the signing worker and the metrics reach it', (signer) => {
    expect(reached(signer)).toEqual([]);
    expect(reaching(signer).sort()).toEqual(['monitoring:9464', 'worker-signing:7100']);
  });

  it.each([
    ['migrate', ['dns:53', 'postgres:5432']],
    ['worker-wallet', ['dns:53', 'postgres:5432', 'temporal:7233', 'monitoring:4318']],
    ['worker-signing', ['dns:53', 'temporal:7233', 'monitoring:4318', ...signers.map((name) => `${name}:7100`)]],
    ['worker-chain', ['dns:53', 'postgres:5432', 'temporal:7233', 'monitoring:4318', ...anywhere]],
    ['worker-webhooks', ['dns:53', 'postgres:5432', 'temporal:7233', 'monitoring:4318', ...anywhere]],
    ['api', ['dns:53', 'postgres:5432', 'temporal:7233', 'monitoring:4318', ...anywhere]],
  ])('of %s: it reaches what its work needs', (name, wanted) => {
    expect(reached(name).sort()).toEqual([...wanted].sort());
  });

  it('lets people in at the api alone', () => {
    expect(reaching('api').sort()).toEqual(['ingress-nginx:8080', 'monitoring:9464']);
    for (const name of ['worker-wallet', 'worker-signing', 'worker-chain', 'worker-webhooks'])
      expect(reaching(name)).toEqual(['monitoring:9464']);
  });

  it('takes no address of the inside for the internet', () => {
    const blocks = of('NetworkPolicy').flatMap(({ spec }) =>
      ((spec.egress ?? []) as Rule[]).flatMap(({ to }) => (to ?? []).flatMap(({ ipBlock }) => ipBlock ?? [])),
    );
    for (const { cidr, except } of blocks)
      if (cidr === '0.0.0.0/0')
        expect(except).toEqual(
          expect.arrayContaining(['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '169.254.0.0/16', '127.0.0.0/8']),
        );
      else expect(cidr).toBe('2000::/3');
  });
});

function packageVersion(): string {
  return (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }).version;
}

const modelsByVersion: Readonly<Record<string, object>> = {
  v1: core,
  'apps/v1': apps,
  'batch/v1': batch,
  'networking.k8s.io/v1': networking,
  'policy/v1': disruption,
};
interface Model {
  readonly prototype: { validate(this: unknown): void };
}
/**
 * What is wrong with a manifest by the schema of its kind, which is that of Kubernetes' own OpenAPI document. That one
 * overlooks what it does not know, so a field that checking never looks at is a fault as well (as with
 * `kubectl apply --validate=strict`).
 */
function findFaults({ apiVersion, kind, ...rest }: Omit<Manifest, 'file'>): string[] {
  const models = (modelsByVersion[apiVersion] ?? {}) as Readonly<Record<string, Model>>;
  expect(models, apiVersion).toHaveProperty(kind);
  const unread = new Set<string>();
  try {
    // Not of a model that is made of it: making one looks at everything.
    models[kind]!.prototype.validate.call(watch({ apiVersion, kind, ...rest }, '', unread));
  } catch (error) {
    return [(error as Error).message];
  }
  return [...unread].map((path) => `${path} is no field that Kubernetes knows`);
}

/** Takes the path of every value out of the set when it is looked at. */
function watch(value: unknown, path: string, unread: Set<string>): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const inner = new Map(
    Object.entries(value).map(([name, part]) => {
      unread.add(`${path}/${name}`);
      return [name, watch(part, `${path}/${name}`, unread)];
    }),
  );
  return new Proxy(value, {
    get(target, name, receiver) {
      if (typeof name === 'string') unread.delete(`${path}/${name}`);
      return typeof name === 'string' && inner.has(name) ? inner.get(name) : Reflect.get(target, name, receiver);
    },
  });
}
