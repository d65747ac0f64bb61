import { z } from 'zod';
import type { SignerContext } from './context.ts';
import { endUnsigned, endUnsignedSchema } from './end-unsigned.ts';
import {
  attestedEpochSchema,
  attestStoredEpoch,
  commitEpoch,
  epochSchema,
  epochsSchema,
  finishEpoch,
  showEpochs,
} from './epoch.ts';
import { exportRecords, exportRecordsSchema } from './export-records.ts';
import { freezeSchema, operatorFreezeSchema, setOperatorFreeze, takeFreeze } from './freeze.ts';
import { commitKeygen, keygenCommitSchema, keygenStartSchema, startKeygen, stepKeygen } from './keygen.ts';
import {
  listPayments,
  listPaymentsSchema,
  readKeys,
  readKeysSchema,
  readPayments,
  readPaymentsSchema,
} from './list-records.ts';
import { importRecords, importRecordsSchema, startMerge, startMergeSchema } from './merge-records.ts';
import { registerOwnerKey, registerOwnerKeySchema, replaceOwnerKey, replaceOwnerKeySchema } from './owner-key.ts';
import { refreshStartSchema, startRefresh, stepRefresh } from './refresh.ts';
import { Refusal } from './refusal.ts';
import { giveTerm, repairStartSchema, repairTermSchema, startRepair } from './repair.ts';
import { roundSchema } from './rounds.ts';
import { listLimits, listLimitsSchema, setLimits, setLimitsSchema } from './set-limits.ts';
import {
  joinSign,
  learnSignature,
  signJoinSchema,
  signLearnSchema,
  signStartSchema,
  signStepSchema,
  startSign,
  stepSign,
} from './sign.ts';
import { status, statusSchema } from './status.ts';
import { unban, unbanSchema } from './unban.ts';
import { ROLES, type Role } from './wire.ts';

/** One thing that can be asked of a signer. */
export interface Operation {
  /** Whose requests it follows. */
  by: readonly Role[];
  /** Works on a parsed body, in the session that the request names. */
  run(context: SignerContext, p: { session: string; role: Role; body: unknown }): Promise<object>;
}

const COORDINATOR: readonly Role[] = ['coordinator'];
const OPERATOR: readonly Role[] = ['operator'];
const BOTH: readonly Role[] = ROLES;

function operation<T>(
  by: readonly Role[],
  schema: z.ZodType<T>,
  run: (context: SignerContext, p: { session: string; role: Role; body: T }) => Promise<object>,
): Operation {
  return {
    by,
    async run(context, { session, role, body }) {
      const parsed = schema.safeParse(body);
      if (parsed.success) return run(context, { session, role, body: parsed.data });
      const issue = parsed.error.issues[0];
      throw new Refusal('malformed', `${issue?.path.join('.') || 'body'}: ${issue?.message ?? 'is not valid'}`);
    },
  };
}

/** Ends a run because another party, or the coordinator, gave up on it. A key that is ready stays ready. */
async function abort(context: SignerContext, p: { session: string }): Promise<object> {
  context.sessions.end(p.session);
  context.store.abandonKey({ sessionId: p.session });
  return {};
}

/** Everything that can be asked of a signer, and by whom. */
export const operations = {
  '/v1/keygen/start': operation(COORDINATOR, keygenStartSchema, startKeygen),
  '/v1/keygen/step': operation(COORDINATOR, roundSchema, stepKeygen),
  '/v1/keygen/commit': operation(COORDINATOR, keygenCommitSchema, commitKeygen),
  '/v1/sign/start': operation(COORDINATOR, signStartSchema, startSign),
  '/v1/sign/join': operation(COORDINATOR, signJoinSchema, joinSign),
  '/v1/sign/step': operation(COORDINATOR, signStepSchema, stepSign),
  '/v1/sign/learn': operation(COORDINATOR, signLearnSchema, learnSignature),
  '/v1/refresh/epochs': operation(BOTH, epochsSchema, showEpochs),
  '/v1/refresh/start': operation(BOTH, refreshStartSchema, startRefresh),
  '/v1/refresh/step': operation(BOTH, roundSchema, stepRefresh),
  '/v1/refresh/attest': operation(BOTH, epochSchema, attestStoredEpoch),
  '/v1/refresh/commit': operation(BOTH, attestedEpochSchema, commitEpoch),
  '/v1/refresh/finish': operation(BOTH, attestedEpochSchema, finishEpoch),
  '/v1/limits/set': operation(BOTH, setLimitsSchema, setLimits),
  '/v1/limits/list': operation(BOTH, listLimitsSchema, listLimits),
  '/v1/freeze': operation(BOTH, freezeSchema, takeFreeze),
  '/v1/operator-freeze': operation(OPERATOR, operatorFreezeSchema, setOperatorFreeze),
  '/v1/owner-key/register': operation(OPERATOR, registerOwnerKeySchema, registerOwnerKey),
  '/v1/owner-key/replace': operation(BOTH, replaceOwnerKeySchema, replaceOwnerKey),
  '/v1/repair/term': operation(OPERATOR, repairTermSchema, giveTerm),
  '/v1/repair/start': operation(OPERATOR, repairStartSchema, startRepair),
  '/v1/records/end-unsigned': operation(COORDINATOR, endUnsignedSchema, endUnsigned),
  '/v1/records/payments': operation(BOTH, listPaymentsSchema, listPayments),
  '/v1/records/payments/read': operation(BOTH, readPaymentsSchema, readPayments),
  '/v1/records/keys/read': operation(BOTH, readKeysSchema, readKeys),
  '/v1/records/merge': operation(OPERATOR, startMergeSchema, startMerge),
  '/v1/records/export': operation(OPERATOR, exportRecordsSchema, exportRecords),
  '/v1/records/import': operation(OPERATOR, importRecordsSchema, importRecords),
  '/v1/unban': operation(OPERATOR, unbanSchema, unban),
  '/v1/abort': operation(BOTH, z.strictObject({}), abort),
  '/v1/status': operation(BOTH, statusSchema, status),
  '/v1/backup': operation(BOTH, z.strictObject({}), (context) => context.backup.rewrite()),
} as const satisfies Record<string, Operation>;

export type OperationPath = keyof typeof operations;
