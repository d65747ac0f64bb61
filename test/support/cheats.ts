import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { decodeBatch, encodeBatch, type Message } from '../../signer/engine/engine.ts';
import { BODY_BYTES_MAX } from '../../signer/wire.ts';
import type { OpenEnvelope } from './hostile-envelope.ts';
import type { Cheat, Opportunity } from './hostile-signer.ts';

/** What the engine puts before each of its messages: magic, protocol, round, sender, receiver, session. */
const FRAME_BYTES = 40;
const FRAME_SESSION = 8;

/** Where the cheat is done: in what the sender signed, or in what anybody on the way could have changed. */
type Layer = 'message' | 'envelope';

/** One way to misbehave with one message. Numbers in [0, 1) say where and how much. */
interface Trick {
  layer: Layer;
  play(sent: Opportunity, p: { x: number; y: number; memory: Memory }): string | Promise<string>;
}

/** Messages that the hostile signer sent in earlier runs, which it may send again. By protocol, round and receiver. */
export type Memory = Map<string, { sealed: string; open: OpenEnvelope }[]>;

const placeOf = ({ context }: OpenEnvelope) => `${context.protocol} ${context.round} to ${context.to}`;
const pick = <T>(of: readonly T[], x: number): T => of[Math.floor(x * of.length)]!;
const at = (length: number, x: number) => Math.floor(x * length);

/** Changes what is signed, and signs it. */
function inside(change: (body: Uint8Array, p: { x: number; y: number }, sent: Opportunity) => Uint8Array): Trick {
  return {
    layer: 'message',
    play: (sent, p) => sent.seal({ context: sent.context, body: change(Uint8Array.from(sent.body), p, sent) }),
  };
}

/** Changes the messages of the engine, and leaves the batch around them whole. */
function messages(change: (all: Message[], p: { x: number; y: number }, sent: Opportunity) => Message[]): Trick {
  return inside((body, p, sent) => {
    const { before, batch } = split(sent.context, body);
    return Buffer.concat([before, encodeBatch(change(decodeBatch(batch), p, sent))]);
  });
}

/** Signatures say news of limits before their messages: a length, and that much JSON. */
function split({ protocol }: OpenEnvelope['context'], body: Uint8Array): { before: Uint8Array; batch: Uint8Array } {
  const end = protocol === 'sign' ? 4 + Buffer.from(body).readUInt32BE() : 0;
  return { before: body.slice(0, end), batch: body.slice(end) };
}

/** Tells other news than it should; of a protocol that has none, the batch is wrong then. */
function news(told: (p: { x: number; y: number }) => string): Trick {
  return inside((body, p, sent) => {
    const text = Buffer.from(told(p));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(text.length);
    return Buffer.concat([length, text, split(sent.context, body).batch]);
  });
}

/** Changes the content of one message of the engine, behind its frame. */
function content(change: (bytes: Uint8Array, p: { x: number; y: number }) => Uint8Array): Trick {
  return messages((all, { x, y }) => {
    const chosen = at(all.length, x);
    return all.map((each, i) => {
      if (i !== chosen) return each;
      const changed = change(each.body.slice(FRAME_BYTES), { x: (x * all.length) % 1, y });
      return { ...each, body: Buffer.concat([each.body.subarray(0, FRAME_BYTES), changed]) };
    });
  });
}

/** Changes where the message says that it belongs. */
function misplaced(change: (context: OpenEnvelope['context']) => Partial<OpenEnvelope['context']>): Trick {
  return {
    layer: 'envelope',
    play: ({ context, body, seal }) => seal({ context: { ...context, ...change(context) }, body }, context.to),
  };
}

/** Changes the sealed text, as anybody on the way could. */
function relayed(change: (text: string, p: { x: number; y: number }) => string): Trick {
  return { layer: 'envelope', play: async (sent, p) => change(await sent.seal(sent), p) };
}

function fill(bytes: Uint8Array, { x, y }: { x: number; y: number }, value: (i: number) => number): Uint8Array {
  const start = at(bytes.length, x);
  const end = Math.min(bytes.length, start + 1 + at(64, y));
  for (let i = start; i < end; i++) bytes[i] = value(i);
  return bytes;
}

/** The last vector of a message, and the size of its elements, guessed from the bytes: postcard writes a count first. */
function resizeLastVector(bytes: Uint8Array, { x, y }: { x: number; y: number }): Uint8Array {
  const found: { offset: number; count: number; size: number }[] = [];
  for (let offset = 34; offset < bytes.length - 1; offset++) {
    const count = bytes[offset]!;
    for (const size of [1, 16, 26, 32, 33]) {
      if (count > 0 && count < 128 && offset + 1 + count * size === bytes.length) found.push({ offset, count, size });
    }
  }
  if (found.length === 0) return bytes.slice(0, -32);
  const { offset, count, size } = pick(found, x);
  const resized = pick([0, count - 1, count + 1], y);
  const kept = Buffer.concat([bytes.subarray(offset + 1), Buffer.alloc(size)]).subarray(0, resized * size);
  return Buffer.concat([bytes.subarray(0, offset), Uint8Array.of(resized), kept]);
}

/** Something that the hostile signer said at the same place of an earlier run, or what it says now when it is the first. */
function earlier(sent: Opportunity, { x, memory }: { x: number; memory: Memory }) {
  const said = memory.get(placeOf(sent)) ?? [];
  return said.length > 0 ? pick(said, x) : undefined;
}

/** Everything that the hostile signer knows to do wrong. */
export const tricks = {
  'flip a bit': inside((body, { x, y }) => {
    body[at(body.length, x)]! ^= 1 << at(8, y);
    return body;
  }),
  'flip a bit of the content': content((bytes, { x, y }) => {
    if (bytes.length > 0) bytes[at(bytes.length, x)]! ^= 1 << at(8, y);
    return bytes;
  }),
  'cut the batch short': inside((body, { x }) => body.slice(0, at(body.length, x))),
  'add to the batch': inside((body, { x }) => Buffer.concat([body, randomBytes(1 + at(2000, x))])),
  'cut a message short': content((bytes, { x }) => bytes.slice(0, at(bytes.length, x))),
  'add to a message': content((bytes, { x }) => Buffer.concat([bytes, randomBytes(1 + at(2000, x))])),
  'random content': content((bytes) => randomBytes(bytes.length)),
  'random part': content((bytes, p) => fill(bytes, p, () => randomBytes(1)[0]!)),
  'zeros in a part': content((bytes, p) => fill(bytes, p, () => 0)),
  'ones in a part': content((bytes, p) => fill(bytes, p, () => 0xff)),
  'all zeros': content((bytes) => bytes.fill(0)),
  'take bytes out': content((bytes, { x, y }) => {
    const start = at(bytes.length, x);
    return Buffer.concat([bytes.subarray(0, start), bytes.subarray(start + 1 + at(40, y))]);
  }),
  'put bytes in': content((bytes, { x, y }) => {
    const start = at(bytes.length, x);
    return Buffer.concat([bytes.subarray(0, start), randomBytes(1 + at(40, y)), bytes.subarray(start)]);
  }),
  'another length of the last vector': content(resizeLastVector),
  'leave a message out': messages((all, { x }) => all.filter((_, i) => i !== at(all.length, x))),
  'say a message twice': messages((all, { x }) => [...all, pick(all, x)]),
  'all in the place of one another': messages((all) => all.map((m, i) => ({ ...m, body: all.at(i - 1)!.body }))),
  'the last first': messages((all) => (all.length > 1 ? all.toReversed() : [])),
  'another frame': messages((all, { x, y }) =>
    all.map((m, i) => {
      const body = Uint8Array.from(m.body);
      if (i === at(all.length, x)) body[at(FRAME_BYTES, y)]! ^= 1 + at(254, x);
      return { ...m, body };
    }),
  ),
  'to another receiver inside': messages((all, { x }) => all.map((m) => ({ ...m, to: at(256, x) }))),
  '255 messages': messages((all) => Array.from({ length: 255 }, () => all[0]!).slice(0, 200)),
  'news that are no JSON': news(({ x }) => '{"documents":['.repeat(1 + at(300, x))),
  'news of nothing known': news(() => '{"documents":[],"spent":[],"pending":[],"more":1}'),
  'deep news': news(({ x }) => `${'['.repeat(1 + at(100_000, x))}${']'.repeat(1 + at(100_000, x))}`),
  'news in other types': news(({ x }) => JSON.stringify(pick([1, 'x', [], {}, { documents: 7 }, { spent: [{}] }], x))),
  'longer news than there are': inside((body, { x }) => {
    Buffer.from(body.buffer, body.byteOffset).writeUInt32BE(body.length + at(2 ** 31, x));
    return body;
  }),
  'nothing at all': inside(() => new Uint8Array()),
  'a body as large as can be sent': inside((_, { x }) => randomBytes(500_000 + at(100_000, x))),
  'a body too large to be sent': inside(() => randomBytes(BODY_BYTES_MAX)),
  'what it said in an earlier run, sealed for this one': {
    layer: 'message',
    play: (sent, p) =>
      sent.seal({ context: sent.context, body: earlier(sent, p)?.open.body ?? Uint8Array.of(0, 0, 0, 0, 0) }),
  },
  'what it said in an earlier run, with the session of this one': {
    layer: 'message',
    play: (sent, p) => {
      const old = earlier(sent, p)?.open.body;
      const { before, batch } = split(sent.context, old ?? Uint8Array.of(0, 0, 0, 0, 0));
      const all = decodeBatch(batch);
      const renamed = all.map((m) => {
        const body = Uint8Array.from(m.body);
        body.set(Buffer.from(sent.context.session, 'hex'), FRAME_SESSION);
        return { ...m, body };
      });
      return sent.seal({ context: sent.context, body: Buffer.concat([before, encodeBatch(renamed)]) });
    },
  },
  'what it said in an earlier run, as it was': {
    layer: 'envelope',
    play: (sent, p) => earlier(sent, p)?.sealed ?? 'nothing',
  },
  'for another round': misplaced(({ round }) => ({ round: round + 1 })),
  'for an earlier round': misplaced(({ round }) => ({ round: round - 1 })),
  'for another session': misplaced(() => ({ session: randomBytes(32).toString('hex') })),
  'for another protocol': misplaced(({ protocol }) => ({ protocol: protocol === 'sign' ? 'keygen' : 'sign' })),
  'in the name of the receiver': misplaced(({ to }) => ({ from: to })),
  'to the third': misplaced(({ from, to }) => ({ to: ([1, 2, 3] as const).find((n) => n !== from && n !== to)! })),
  'about something else': misplaced(({ subject }) => ({ subject: `${subject}0` })),
  'sealed to the third': {
    layer: 'envelope',
    play: (sent) => {
      const third = ([1, 2, 3] as const).find((n) => n !== sent.context.from && n !== sent.context.to)!;
      return sent.seal(sent, third);
    },
  },
  'a character changed': relayed((text, { x }) => {
    const i = at(text.length, x);
    return text.slice(0, i) + (text[i] === 'A' ? 'B' : 'A') + text.slice(i + 1);
  }),
  'text cut short': relayed((text, { x }) => text.slice(0, at(text.length, x))),
  'text that is no envelope': relayed((_, { x }) => randomBytes(at(3000, x)).toString('base64')),
  'two parts exchanged': relayed((text, { x }) => {
    const parts = text.split('.');
    const i = at(parts.length - 1, x);
    return [...parts.slice(0, i), parts[i + 1], parts[i], ...parts.slice(i + 2)].join('.');
  }),
} as const satisfies Record<string, Trick>;

export type TrickName = keyof typeof tricks;

export interface Plan {
  trick: TrickName;
  x: number;
  y: number;
}

const fraction = fc.nat({ max: 2 ** 30 - 1 }).map((n) => n / 2 ** 30);

const planOf = (names: readonly TrickName[]): fc.Arbitrary<Plan> =>
  fc.record({ trick: fc.constantFrom(...names), x: fraction, y: fraction });

/** Any trick, anywhere in the message. */
export const anyPlan = planOf(Object.keys(tricks) as TrickName[]);

/** The tricks that get far into the protocol, for runs of which there can be few. */
export const deepPlan = planOf([
  'flip a bit of the content',
  'random part',
  'zeros in a part',
  'ones in a part',
  'all zeros',
  'take bytes out',
  'another length of the last vector',
  'say a message twice',
  'what it said in an earlier run, with the session of this one',
  'about something else',
  'text cut short',
]);

/** Plays a plan on the message of one round; the others are sent as they are, and remembered. */
export function cheatIn(round: number, p: { plan: Plan; memory: Memory }): Cheat {
  return async (sent) => {
    if (sent.context.round === round) {
      return tricks[p.plan.trick].play(sent, { x: p.plan.x, y: p.plan.y, memory: p.memory });
    }
    return sent.seal(sent);
  };
}

/** Sends everything as it is, and remembers it. */
export function remembering(memory: Memory): Cheat {
  return async (sent) => {
    const sealed = await sent.seal(sent);
    const said = memory.get(placeOf(sent)) ?? [];
    memory.set(placeOf(sent), [...said, { sealed, open: { context: sent.context, body: sent.body } }]);
    return sealed;
  };
}
