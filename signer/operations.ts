import { z } from 'zod';
import type { SignerContext } from './context.ts';
import {
  commitKeygen,
  keygenCommitSchema,
  keygenStartSchema,
  keygenStepSchema,
  startKeygen,
  stepKeygen,
} from './keygen.ts';
import { Refusal } from './refusal.ts';
import { joinSign, signJoinSchema, signStartSchema, signStepSchema, startSign, stepSign } from './sign.ts';

/** Runs one operation of the session on a parsed body. */
export type Operation = (context: SignerContext, p: { session: string; body: unknown }) => Promise<object>;

function operation<T>(
  schema: z.ZodType<T>,
  run: (context: SignerContext, p: { session: string; body: T }) => Promise<object>,
): Operation {
  return async (context, { session, body }) => {
    const parsed = schema.safeParse(body);
    if (parsed.success) return run(context, { session, body: parsed.data });
    const issue = parsed.error.issues[0];
    throw new Refusal('malformed', `${issue?.path.join('.') || 'body'}: ${issue?.message ?? 'is not valid'}`);
  };
}

/** Ends a run because another party, or the coordinator, gave up on it. A key that is ready stays ready. */
async function abort(context: SignerContext, p: { session: string }): Promise<object> {
  context.sessions.end(p.session);
  context.store.abandonKey({ sessionId: p.session });
  return {};
}

/** Everything that the coordinator can ask of a signer. */
export const operations = {
  '/v1/keygen/start': operation(keygenStartSchema, startKeygen),
  '/v1/keygen/step': operation(keygenStepSchema, stepKeygen),
  '/v1/keygen/commit': operation(keygenCommitSchema, commitKeygen),
  '/v1/sign/start': operation(signStartSchema, startSign),
  '/v1/sign/join': operation(signJoinSchema, joinSign),
  '/v1/sign/step': operation(signStepSchema, stepSign),
  '/v1/abort': operation(z.strictObject({}), abort),
} as const satisfies Record<string, Operation>;

export type OperationPath = keyof typeof operations;
